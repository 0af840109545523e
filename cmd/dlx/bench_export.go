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

// exportFlags are the files to which a report is also written, in the order of export.Formats; an empty name is no file.
type exportFlags []string

// register adds a flag for each format.
func (f *exportFlags) register(flags *pflag.FlagSet) {
	*f = make(exportFlags, len(export.Formats))
	for i, format := range export.Formats {
		flags.Var((*filled)(&(*f)[i]), format.Name+"-file", "also write "+format.Help+", to a `file`; - is standard output, instead of the text")
	}
}

// checkExports returns an error if writeExports could not write to a file.
func (a *app) checkExports(f exportFlags) error {
	var errs []error
	for i, path := range f {
		errs = append(errs, a.checkFile(export.Formats[i].Name+"-file", path))
	}
	return errors.Join(errs...)
}

// outputs are the files of all formats.
func (f exportFlags) outputs() (list []output) {
	for i, path := range f {
		list = append(list, output{export.Formats[i].Name + "-file", path})
	}
	return list
}

// writeExports writes the report to all files. A file that cannot be written does not stop the others. Each appears when it is
// complete.
func (a *app) writeExports(ctx context.Context, f exportFlags, r benchResult) error {
	program := export.Program{Version: cmp.Or(r.Program.Version, "unknown"), Revision: r.Program.Revision}
	var errs []error
	for i, path := range f {
		if path == "" {
			continue
		}
		format := export.Formats[i]
		err := a.writeFile(ctx, path, func(w io.Writer) error { return format.Write(w, program, r.Report) })
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s-file: %w", format.Name, err))
		}
	}
	return errors.Join(errs...)
}
