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
	stdout   io.Writer // results, nothing else
	stderr   io.Writer // the log and progress bars
	log      zerolog.Logger
	json     bool // results are wanted as JSON
	working  bool // the command line was accepted
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, registry *core.Registry, args []string, stdout, stderr io.Writer) int {
	a := &app{registry: registry, stdout: stdout, stderr: stderr}
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(err, a.working)
	switch {
	case code == exitOK:
	case code == exitUsage:
		cmd.FParseErrWhitelist.UnknownFlags = true
		_ = cmd.ParseFlags(args) // those of the log may stand behind what is wrong
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
	root := &cobra.Command{
		Use:   "dlx",
		Short: "Move tensors between devices, without a copy where that is possible",
		Long: `dlx takes tensors from where they are to where they are needed next, without a
copy where the hardware allows, and says which way they went.

Results go to standard output, as text or with --json as one JSON document; the
log goes to standard error.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetHelpTemplate(root.HelpTemplate() + "{{if not .HasParent}}" + exitHelp + "{{end}}") // else each subcommand has it, too
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print the result as JSON")
	addLogFlags(root, a)
	root.AddCommand(
		newDevicesCommand(a),
		newInspectCommand(a),
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

// runE is what a subcommand runs when its command line is in order: errors from
// here on are failures of the work.
func (a *app) runE(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.working = true
		return work(cmd, args)
	}
}
