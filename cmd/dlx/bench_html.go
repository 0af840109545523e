package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/plot"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/atomicfile"
)

// reportProgram describes this program for a page.
func (v versionResult) reportProgram() report.Program {
	return report.Program{Version: v.Version, Revision: v.Revision, Go: v.Go, Platform: v.Platform, Tags: v.Tags}
}

// program describes this program for a page.
func (a *app) program() report.Program {
	info, _ := debug.ReadBuildInfo() // nil where a build has none
	return newVersionResult(info, a.registry).reportProgram()
}

// writeDevicesHTML writes the devices as a page.
func (a *app) writeDevicesHTML(ctx context.Context, path string, r devicesResult) error {
	return a.writeFile(context.WithoutCancel(ctx), path, func(w io.Writer) error {
		return report.WriteDevices(w, a.program(), r.Backends, r.Hints)
	})
}

// writeHTML writes the report as a page to a file, or to standard output if path is "-".
func (a *app) writeHTML(ctx context.Context, path, command string, r benchResult) error {
	return a.writeFile(ctx, path, func(w io.Writer) error {
		return report.WriteBench(w, r.Program.reportProgram(), r.Report, func(kept benchmarks.Report) any {
			return document{Schema: schema, Command: command, Result: benchResult{Program: r.Program, Report: kept}}
		})
	})
}

// benchFiles are the files that people look at, and those that other programs read.
type benchFiles struct {
	html    string
	plot    string
	exports exportFlags
}

func (f *benchFiles) addFlags(cmd *cobra.Command) {
	addHTML(cmd, &f.html, "report")
	cmd.Flags().Var((*filled)(&f.plot), "plot", "also draw one figure to a `file` that ends in .svg or .png: the bandwidth over size, or bars if there are no sizes")
	f.exports.register(cmd.Flags())
}

// addHTML adds the flag --html.
func addHTML(cmd *cobra.Command, path *string, what string) {
	cmd.Flags().Var((*filled)(path), "html", "also write the "+what+" as a page to a `file` that loads nothing from outside; - is standard output, instead of the text")
}

// check returns an error if the flags are wrong.
func (f benchFiles) check() error {
	if f.plot != "" {
		if _, err := plot.Format(f.plot); err != nil {
			return fmt.Errorf("invalid argument for --plot: %w", err)
		}
	}
	return nil
}

// checkBenchFiles returns an error if the files could not be written, or if two of them, or of others that the command writes, are the
// same one.
func (a *app) checkBenchFiles(f benchFiles, others ...output) error {
	all := append(others, output{"html", f.html}, output{"plot", f.plot})
	return errors.Join(checkDifferent(append(all, f.exports.outputs()...)), a.checkFile("html", f.html), a.checkFile("plot", f.plot), a.checkExports(f.exports))
}

// writeBenchFiles writes the files that the flags name.
func (a *app) writeBenchFiles(ctx context.Context, f benchFiles, command string, r benchResult) error {
	var errs []error
	if f.html != "" {
		errs = append(errs, a.writeHTML(ctx, f.html, command, r))
	}
	if f.plot != "" {
		errs = append(errs, a.writeFile(ctx, f.plot, func(w io.Writer) error {
			format, err := plot.Format(f.plot)
			if err != nil {
				return err
			}
			return plot.Write(w, format, r.Report)
		}))
	}
	return errors.Join(append(errs, a.writeExports(ctx, f.exports, r))...)
}

// checkFile returns an error if writeFile could not write to the path of a flag. If that is standard output, checkFile
// sees to it that nothing else is printed there.
func (a *app) checkFile(flag, path string) error {
	switch {
	case path == "":
		return nil
	case path == "-" && (a.json || a.page):
		return core.Errorf(core.ErrInvalid, "command", flag, "standard output takes one result: name a file for --%s", flag)
	case path == "-":
		a.page = true
		return nil
	}
	return a.checkReport(path)
}

// writeFile writes to a file as writeReport does, and to standard output if path is "-".
func (a *app) writeFile(ctx context.Context, path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(a.stdout)
	}
	if own := a.output(path); own != nil {
		return write(own)
	}
	err := atomicfile.Write(ctx, path, write)
	if !isOutput(err) {
		if err != nil && !strings.Contains(err.Error(), path) { // such as that of a file beside it
			err = fmt.Errorf("%s is not written: %w", path, err)
		}
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) // keep what an open file already has
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
