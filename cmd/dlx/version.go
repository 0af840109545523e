package main

import (
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

// dlpackVersion is the version of DLPack of exported tensors.
const dlpackVersion = "1.3"

// versionResult is the result of `dlx version`.
type versionResult struct {
	Version  string   `json:"version"`            // of the module; "(devel)" for a build from a working copy
	Revision string   `json:"revision,omitempty"` // of the source, as the version control system names it
	Time     string   `json:"time,omitempty"`     // of that revision
	Modified bool     `json:"modified"`           // the source differed from the revision
	Go       string   `json:"go"`
	Platform string   `json:"platform"`               // "linux/amd64"
	Tags     []string `json:"tags"`                   // build tags
	Unknown  []string `json:"unknown_tags,omitempty"` // the tags that neither dlx nor Go defines
	Built    []string `json:"built"`                  // the backends in the program
	NotBuilt []string `json:"not_built"`              // the backends that build tags add
	Cgo      bool     `json:"cgo"`                    // the program was built with cgo
	DLPack   string   `json:"dlpack"`                 // the version of DLPack of exported tensors
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the source and the backends of this program",
		Args:  cobra.NoArgs,
		Long: `Show the version and the revision of the source that this program was built from, the
build tags, and the backends that the tags have added. A tag that neither dlx nor Go
defines, such as a misspelled one, has no effect and is listed as unknown.`,
		RunE: a.runE(a.version),
	}
}

// version runs dlx version and dlx --version.
func (a *app) version(*cobra.Command, []string) (result, error) {
	info, _ := debug.ReadBuildInfo() // nil where a build has none
	return newVersionResult(info, a.registry), nil
}

func newVersionResult(info *debug.BuildInfo, registry *core.Registry) versionResult {
	v := versionResult{
		Version:  "unknown",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Tags:     []string{},
		Built:    []string{},
		NotBuilt: inventory.Missing(registry),
		DLPack:   dlpackVersion,
	}
	for _, b := range registry.Backends() {
		v.Built = append(v.Built, b.Name())
	}
	if info == nil {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "CGO_ENABLED":
			v.Cgo = s.Value == "1"
		case "-tags":
			v.Tags = strings.Split(s.Value, ",")
			v.Unknown = unknownTags(v.Tags)
		}
	}
	return v
}

// goTags are build tags of Go's standard library, and others that are common in Go programs.
var goTags = []string{"netgo", "netcgo", "osusergo", "purego", "timetzdata", "nethttpomithttp2", "static_build"}

// knownTags returns the tags of dlx: those of backends, and that of package remote.
func knownTags() []string { return append(all.Tags(), "ucx") }

// unknownTags returns the tags that are neither those of dlx nor in goTags. They may be
// misspelled.
func unknownTags(tags []string) []string {
	var unknown []string
	for _, tag := range tags {
		if tag != "" && !slices.Contains(knownTags(), tag) && !slices.Contains(goTags, tag) {
			unknown = append(unknown, tag)
		}
	}
	return unknown
}

// writeUnknownTags writes a row if there are unknown tags.
func writeUnknownTags(w io.Writer, tags []string) {
	if len(tags) > 0 {
		row(w, "unknown tags", printable(strings.Join(tags, " "))+" (dlx has the tags "+strings.Join(knownTags(), ", ")+")")
	}
}

func (v versionResult) writeText(w io.Writer) {
	revision := v.Revision
	if v.Modified {
		revision += " (modified)"
	}
	row(w, "dlx", v.Version)
	row(w, "revision", orDash(revision))
	row(w, "time", orDash(v.Time))
	row(w, "go", v.Go+" "+v.Platform)
	row(w, "cgo", strconv.FormatBool(v.Cgo))
	row(w, "tags", orDash(strings.Join(v.Tags, " ")))
	writeUnknownTags(w, v.Unknown)
	row(w, "backends", orDash(strings.Join(v.Built, " ")))
	row(w, "not built", orDash(strings.Join(v.NotBuilt, " ")))
	row(w, "dlpack", v.DLPack)
}
