package main

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
)

// app is the state of one run of the program.
type app struct {
	registry *core.Registry
	stdin    io.Reader
	stdout   io.Writer // results, nothing else
	stderr   io.Writer // the log and progress bars
	log      zerolog.Logger
	// executable is this program, if it can be started again to measure in other processes.
	executable string
	json       bool   // print results as JSON
	page       bool   // standard output has a page or a figure, and no text
	working    bool   // the command line is correct and the work has begun
	result     result // the result for the JSON document; nil if there is none
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, registry *core.Registry, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{registry: registry, stdin: stdin, stdout: stdout, stderr: stderr}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(err, a.working)
	if code == exitUsage {
		// Parsing stops at the first error: find --json and the log flags after it.
		common := root.PersistentFlags()
		common.ParseErrorsAllowlist.UnknownFlags = true
		_ = common.Parse(args)
	}
	if a.json && (a.result != nil || err != nil) {
		if failed := a.showDocument(cmd.Name(), err); failed != nil {
			err = errors.Join(err, failed)
			code = max(code, exitFailed)
		}
	}
	switch {
	case code == exitOK:
	case code == exitUsage:
		a.log.Error().Msgf("%s; see %s --help", textEscape(usageText(err)), cmd.CommandPath())
	case errors.Is(err, context.Canceled):
		a.log.Error().Msg("interrupted")
	default:
		a.log.Error().Err(validError{err}).Msgf("%s failed", cmd.Name())
	}
	return code
}

// usageText returns the text of an error in the command line on one line, without the names of
// Go functions that found it, and without saying twice that an argument is invalid.
func usageText(err error) string {
	text := err.Error()
	var e *core.Error
	if errors.As(err, &e) {
		plain := core.Error{Code: e.Code, Detail: e.Detail, Err: e.Err}
		short := plain.Error()
		if errors.Is(e, core.ErrInvalid) && e.Detail != "" && strings.HasPrefix(text, "invalid argument") {
			short = e.Detail
		}
		text = strings.Replace(text, e.Error(), short, 1)
	}
	if number := new(strconv.NumError); errors.As(err, &number) {
		text = strings.Replace(text, number.Error(), "it is not a number that can be used here", 1)
	}
	text = strings.Replace(text, " flag: time: ", " flag: ", 1) // what cannot be a duration
	return strings.Join(strings.Fields(text), " ")              // suggestions of cobra have several lines
}

// newRootCommand builds the command with all its subcommands.
func newRootCommand(a *app) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "dlx",
		Short: "Move tensors between devices, without a copy where possible",
		Long: `dlx moves tensors between devices and files. It shares memory instead of copying
it where the hardware allows, and reports how each tensor was moved.

Results are printed to standard output as text or, with --json, as one JSON document,
which also has the error if the command failed. The log is printed to standard error.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !version {
				return cmd.Help()
			}
			return a.runE(a.version)(cmd, args)
		},
	}
	root.Flags().BoolVar(&version, "version", false, "show the source and the backends of this program, as dlx version does")
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetHelpTemplate(root.HelpTemplate() + "{{if not .HasParent}}" + exitHelp + "{{end}}") // else each subcommand has it, too
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print the result, or the error, as JSON")
	addLogFlags(root, a)
	root.AddCommand(
		newDevicesCommand(a),
		newInspectCommand(a),
		newConvertCommand(a),
		newPlanCommand(a),
		newMoveCommand(a),
		newHandoffCommand(a),
		newLoadCommand(a),
		newServeCommand(a),
		newSendCommand(a),
		newReceiveCommand(a),
		newDoctorCommand(a),
		newBenchCommand(a),
		newVersionCommand(a),
	)
	refuseUnknown(root)
	return root
}

// refuseUnknown makes the help and completion commands of cobra fail for an unknown name. By
// default they print help and succeed.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, topic []string) error {
				_, _, err := root.Find(topic)
				return err
			}
		case "completion":
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() } // cobra checks Args only if there is a RunE
		}
	}
}

// runE returns the RunE function of a subcommand. It is called when the command line is
// correct, so its errors are failures of the work. A work that fails may also return a result
// with what it found before. Text results are printed at once. JSON results are printed when
// the command has ended.
func (a *app) runE(work func(cmd *cobra.Command, args []string) (result, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.working = true
		r, err := work(cmd, args)
		if a.json {
			a.result = r
		} else if r != nil && !a.page {
			err = errors.Join(a.showText(r), err)
		}
		return err
	}
}
