package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/benchmarks"
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
		return report.WriteDevices(w, a.program(), r.Backends)
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
	exports exportFlags
}

func (f *benchFiles) addFlags(flags *pflag.FlagSet) {
	addHTML(flags, &f.html, "report")
	f.exports.register(flags)
}

// addHTML adds the flag --html.
func addHTML(flags *pflag.FlagSet, path *string, what string) {
	flags.StringVar(path, "html", "", "also write the "+what+" as a page to a `file` that loads nothing from outside; - is standard output, instead of the text")
}

// checkBenchFiles returns an error if the files could not be written.
func (a *app) checkBenchFiles(f benchFiles) error {
	return errors.Join(a.checkFile("html", f.html), a.checkExports(f.exports))
}

// writeBenchFiles writes the files.
func (a *app) writeBenchFiles(ctx context.Context, f benchFiles, command string, r benchResult) error {
	var err error
	if f.html != "" {
		err = a.writeHTML(ctx, f.html, command, r)
	}
	return errors.Join(err, a.writeExports(ctx, f.exports, r))
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
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) // keep what an open file already has
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
