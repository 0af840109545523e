package main

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// addLogFlags adds the flags of the log. They take effect as soon as they are parsed, because
// errors in the rest of the command line are logged.
func addLogFlags(root *cobra.Command, a *app) {
	level, format := "info", "console"
	start := func() { a.log = newLogger(a.stderr, level, format) }
	start()
	levels := logFlag{choice[string]{&level, []string{"debug", "info", "warn", "error"}}, start}
	formats := logFlag{choice[string]{&format, []string{"console", "json"}}, start}
	root.PersistentFlags().Var(levels, "log-level", "log messages of this level and above")
	root.PersistentFlags().Var(formats, "log-format", "write the log as text or as lines of JSON")
	completeFlag(root, "log-level", levels.complete)
	completeFlag(root, "log-format", formats.complete)
}

// logFlag is a choice that calls a function when it was made.
type logFlag struct {
	choice[string]
	chosen func()
}

// Set chooses a word and calls chosen.
func (f logFlag) Set(s string) error {
	if err := f.choice.Set(s); err != nil {
		return err
	}
	f.chosen()
	return nil
}

func newLogger(w io.Writer, level, format string) zerolog.Logger {
	if format == "json" {
		w = escaping{w, jsonEscape}
	} else {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !isTerminal(w), TimeFormat: time.TimeOnly}
	}
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		l = zerolog.InfoLevel // not reached: the flag accepts only valid levels
	}
	return zerolog.New(w).Level(l).With().Timestamp().Logger()
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
