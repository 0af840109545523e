package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
)

// app is one run of the program, as its commands see it.
type app struct {
	registry *core.Registry
	stdin    io.Reader
	stdout   io.Writer // results, nothing else
	stderr   io.Writer // the log and progress bars
	log      zerolog.Logger
	json     bool   // results are wanted as JSON
	working  bool   // the command line was accepted
	result   result // what the command found out, for the JSON document; nil if nothing
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, registry *core.Registry, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{registry: registry, stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(err, a.working)
	if code == exitUsage {
		// --json and the flags of the log may stand behind what is wrong.
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

// usageText gives an error in the command line on one line, without the Go function that found it.
func usageText(err error) string {
	text := err.Error()
	var e *core.Error
	if errors.As(err, &e) {
		plain := core.Error{Code: e.Code, Detail: e.Detail, Err: e.Err}
		text = strings.Replace(text, e.Error(), plain.Error(), 1)
	}
	return strings.Join(strings.Fields(text), " ") // cobra puts its suggestions on more lines
}

// newRootCommand builds the command with all its subcommands.
func newRootCommand(a *app) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "dlx",
		Short: "Move tensors between devices, without a copy where that is possible",
		Long: `dlx takes tensors from where they are to where they are needed next, without a
copy where the hardware allows, and says which way they went.

Results go to standard output, as text or with --json as one JSON document, which
also says why a command failed; the log goes to standard error.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !version {
				return cmd.Help()
			}
			return a.runE(a.version)(cmd, args)
		},
	}
	root.Flags().BoolVar(&version, "version", false, "show what this program was built from, as dlx version does")
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
		newHandoffCommand(a),
		newBenchCommand(a),
		newVersionCommand(a),
	)
	refuseUnknown(root)
	return root
}

// refuseUnknown makes cobra's own commands fail on a name that they do not know,
// where they would print help and claim success.
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
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() } // now its Args are checked
		}
	}
}

// runE returns what a subcommand runs when its command line is in order: errors from
// here on are failures of the work. Work may return a result with an error, for what
// was found out before the failure. The result is printed, in JSON after the command
// has ended.
func (a *app) runE(work func(cmd *cobra.Command, args []string) (result, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.working = true
		r, err := work(cmd, args)
		if a.json {
			a.result = r
		} else if r != nil {
			err = errors.Join(a.showText(r), err)
		}
		return err
	}
}
