package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/benchmarks/export"
)

// toOutput is the file name that stands for standard output.
const toOutput = "-"

// exportFlags are the files to which a report is also written, in the order of export.Formats; an empty name is no file.
type exportFlags []string

// register adds a flag for each format.
func (f *exportFlags) register(flags *pflag.FlagSet) {
	*f = make(exportFlags, len(export.Formats))
	for i, format := range export.Formats {
		flags.StringVar(&(*f)[i], format.Name+"-file", "", "also write "+format.Help+", to a `file`; - is standard output, without the table")
	}
}

// stdout reports whether a format goes to standard output, where nothing else may go then.
func (f exportFlags) stdout() bool {
	for _, path := range f {
		if path == toOutput {
			return true
		}
	}
	return false
}

// check returns an error if two flags want the same file, or standard output when --json does.
func (f exportFlags) check(json bool) error {
	used := make(map[string]string)
	for i, path := range f {
		flag := "--" + export.Formats[i].Name + "-file"
		switch {
		case path == "":
			continue
		case path == toOutput && json:
			return fmt.Errorf("invalid argument %q for %s: --json writes to standard output", path, flag)
		case used[path] != "":
			return fmt.Errorf("invalid argument %q for %s: %s has the same file", path, flag, used[path])
		}
		used[path] = flag
	}
	return nil
}

// checkExports returns an error if writeExports could not write to a file.
func (a *app) checkExports(f exportFlags) error {
	var errs []error
	for _, path := range f {
		if path != "" && path != toOutput {
			errs = append(errs, a.checkReport(path))
		}
	}
	return errors.Join(errs...)
}

// writeExports writes the report to all files. A file that cannot be written does not stop the others. Each appears when it is
// complete.
func (a *app) writeExports(ctx context.Context, f exportFlags, r benchResult) error {
	program := export.Program{Version: cmp.Or(r.Program.Version, "unknown"), Revision: r.Program.Revision}
	var errs []error
	for i, path := range f {
		format := export.Formats[i]
		write := func(w io.Writer) error { return format.Write(w, program, r.Report) }
		var err error
		switch path {
		case "":
		case toOutput:
			err = write(a.stdout)
		default:
			err = a.writeFile(ctx, path, write)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: the format %s is not written: %w", path, format.Name, err))
		}
	}
	return errors.Join(errs...)
}
