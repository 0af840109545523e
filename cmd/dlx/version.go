package main

import (
	"io"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// dlpackVersion is the version of DLPack that tensors leave as.
const dlpackVersion = "1.3"

// versionResult is the result of `dlx version`.
type versionResult struct {
	Version  string   `json:"version"`            // of the module; "(devel)" for a build from a working copy
	Revision string   `json:"revision,omitempty"` // of the source, as the version control system names it
	Time     string   `json:"time,omitempty"`     // of that revision
	Modified bool     `json:"modified"`           // the source differed from the revision
	Go       string   `json:"go"`
	Platform string   `json:"platform"` // "linux/amd64"
	Tags     []string `json:"tags"`     // build tags; each adds a backend
	Cgo      bool     `json:"cgo"`      // C code is in the build
	DLPack   string   `json:"dlpack"`   // the version that tensors are exported as
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show what this program was built from",
		Args:  cobra.NoArgs,
		RunE: a.runE(func(*cobra.Command, []string) (result, error) {
			info, _ := debug.ReadBuildInfo() // nil where a build has none
			return newVersionResult(info), nil
		}),
	}
}

func newVersionResult(info *debug.BuildInfo) versionResult {
	v := versionResult{
		Version:  "unknown",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Tags:     []string{},
		DLPack:   dlpackVersion,
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
		}
	}
	return v
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
	row(w, "dlpack", v.DLPack)
}
