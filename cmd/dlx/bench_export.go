package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/benchmarks/export"
	"github.com/dlx-go/dlx/core"
)

// exportFlags are the files to which a report is also written, in the order of export.Formats; an empty name is no file.
type exportFlags []string

// register adds a flag for each format.
func (f *exportFlags) register(flags *pflag.FlagSet) {
	*f = make(exportFlags, len(export.Formats))
	for i, format := range export.Formats {
		flags.StringVar(&(*f)[i], format.Name+"-file", "", "also write "+format.Help+", to a `file`; - is standard output, instead of the text")
	}
}

// checkExports returns an error if writeExports could not write to a file, or if two formats have the same one.
func (a *app) checkExports(f exportFlags) error {
	var errs []error
	used := make(map[string]string)
	for i, path := range f {
		flag := export.Formats[i].Name + "-file"
		errs = append(errs, a.checkFile(flag, path))
		if path != "" && path != "-" && used[path] != "" {
			errs = append(errs, core.Errorf(core.ErrInvalid, "command", flag, "--%s writes to %s, too: name another file", used[path], path))
		}
		used[path] = flag
	}
	return errors.Join(errs...)
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
