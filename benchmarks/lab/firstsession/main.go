package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags that experiments use.
type settings struct {
	python, script string
	blocked        time.Duration // how long a call may take before it counts as blocked
}

// run runs the command and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("firstsession", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var s settings
	var wanted []string
	list := flags.Bool("list", false, "print the experiments")
	limit := flags.Duration("time", 540*time.Second, "the time for all experiments; those that do not begin in it are skipped")
	child := flags.String("child", "", "run one experiment in this process; for the command itself")
	// Calls that do not block take less than a millisecond, and loading a module some hundred.
	flags.DurationVar(&s.blocked, "blocked", 1500*time.Millisecond, "the time after which a call counts as blocked")
	flags.StringVar(&s.python, "python", "", "an interpreter with PyTorch")
	flags.StringVar(&s.script, "script", "", "the path of first_session_torch.py")
	flags.Func("experiment", "run only this `experiment`, or those whose names begin with it; may be repeated", func(name string) error {
		wanted = append(wanted, name)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return 2
	}
	all := experiments()
	switch {
	case *list:
		for _, x := range all {
			fmt.Fprintf(stdout, "%-52s %s\n", x.name, x.about)
		}
		return 0
	case *child != "":
		return runChild(all, *child, s)
	case flags.NArg() != 1:
		fmt.Fprintln(stderr, "usage: firstsession [flags] OUT.json")
		return 2
	}
	if len(wanted) > 0 {
		all = slices.DeleteFunc(all, func(x experiment) bool {
			return !slices.ContainsFunc(wanted, func(w string) bool { return strings.HasPrefix(x.name, w) })
		})
	}
	if len(all) == 0 {
		fmt.Fprintln(stderr, noExperiments)
		return 2
	}
	self, err := os.Executable()
	if err == nil {
		err = newSession(flags.Arg(0), func(x experiment) []string {
			return append([]string{self, "-child", x.name}, s.args()...)
		}, stdout).run(context.Background(), all, *limit)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// args are the flags that give a child the same settings.
func (s settings) args() []string {
	return []string{"-blocked=" + s.blocked.String(), "-python=" + s.python, "-script=" + s.script}
}
