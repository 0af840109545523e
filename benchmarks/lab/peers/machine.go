package main

import (
	"fmt"
	"math"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/benchmarks/facts"
)

// Machine is where the results were measured. Fields that cannot be found out are empty.
type Machine struct {
	Platform  string `json:"platform"` // "linux/amd64"
	Processor string `json:"processor,omitempty"`
	CPUs      int    `json:"cpus"` // that Go may use at a time
	Kernel    string `json:"kernel,omitempty"`
	System    string `json:"system,omitempty"` // the distribution
	Go        string `json:"go"`
}

// Load is the load averages of the last 1, 5 and 15 minutes.
type Load [3]float64

func thisMachine() Machine {
	h := facts.Host()
	return Machine{Platform: h.Platform, Processor: h.CPU, CPUs: h.CPUs, Kernel: h.Kernel, System: h.System, Go: h.Versions["Go"]}
}

// loadNow returns the load averages, and false where the system does not tell.
func loadNow() (l Load, ok bool) {
	n := copy(l[:], facts.Load())
	return l, n == len(l)
}

// quietLoad is the load average of the last minute, as a part of the processors, up to which the machine counts as quiet.
// Half of one of two processors: the peers before leave as much behind.
const quietLoad = 0.75

func isQuiet(l Load, known bool, cpus int) bool { return known && l[0] <= quietLoad*float64(cpus) }

// revision is the commit that this program was built from, with "+changes" if files differed from it. Go does not record
// it in a further worktree of git, and then it is that of the working directory.
func revision() string {
	commit, changed := builtFrom()
	if commit == "" {
		out, err := exec.Command("git", "rev-parse", "HEAD").Output()
		if err != nil {
			return "unknown"
		}
		commit = strings.TrimSpace(string(out))
		status, err := exec.Command("git", "status", "--porcelain").Output()
		changed = err != nil || len(status) > 0
	}
	if changed {
		commit += "+changes"
	}
	return commit
}

// builtFrom returns what the build recorded.
func builtFrom() (commit string, changed bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	return commit, changed
}

// debianVersion returns the version of an installed package of Debian, with its name.
func debianVersion(name string) string {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("Debian's %s %s", name, out)
}

// libc names the C library, whose memcpy is measured.
func libc() string {
	if version := debianVersion("libc6"); version != "" {
		return version
	}
	out, err := exec.Command("getconf", "GNU_LIBC_VERSION").Output()
	if err != nil {
		return "the C library of the system"
	}
	return strings.TrimSpace(string(out))
}

// round keeps four digits behind the point below 10, and three above.
func round(x float64) float64 {
	scale := 1000.0
	if math.Abs(x) < 10 {
		scale = 10000
	}
	return math.Round(x*scale) / scale
}

func rounded(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = round(v)
	}
	return out
}

// median returns the middle of the values, of which there must be one at least.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
