package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/atomicfile"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// readReport reads a report that --out or --json wrote.
func readReport(path, command string) (benchResult, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return benchResult{}, err
	}
	var r benchResult
	d := document{Result: &r}
	if err := strictjson.Unmarshal(content, &d); err != nil {
		return benchResult{}, core.Errorf(core.ErrInvalid, "bench", "compare", "%s is not a report: %v", path, err)
	}
	if d.Schema != schema || d.Command != command {
		return benchResult{}, core.Errorf(core.ErrVersion, "bench", "compare", "%s has schema %q and command %q; a report has %q and %q", path, d.Schema, d.Command, schema, command)
	}
	return r, nil
}

// checkReport returns an error if writeReport could not write to path.
func (a *app) checkReport(path string) error {
	if err := atomicfile.Check(path); a.output(path) == nil && !isOutput(err) {
		return err
	}
	return nil
}

// writeReport writes the document that --json prints, as writeFile does.
func (a *app) writeReport(ctx context.Context, path, command string, r benchResult) error {
	return a.writeFile(ctx, path, func(w io.Writer) error {
		return writeDocument(w, document{Schema: schema, Command: command, Result: r})
	})
}

// output returns the standard output or standard error of the program if path names it, or nil.
// Replacing that file by a new one would lose what the program prints afterwards.
func (a *app) output(path string) io.Writer {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	for _, w := range []io.Writer{a.stdout, a.stderr} {
		if file, ok := w.(*os.File); ok {
			if own, err := file.Stat(); err == nil && os.SameFile(own, info) {
				return w
			}
		}
	}
	return nil
}

// isOutput reports whether err says that a path names a pipe, a device or an open file, which is
// written to and not replaced.
func isOutput(err error) bool {
	var irregular *atomicfile.IrregularError
	return errors.As(err, &irregular) && (irregular.Open || irregular.Mode&(fs.ModeNamedPipe|fs.ModeDevice) != 0)
}
