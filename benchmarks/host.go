package benchmarks

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/dlx-go/dlx/benchmarks/facts"
)

// thisHost asks Linux's /proc for what Go does not know; elsewhere that is missing.
func thisHost() facts.Machine {
	h := facts.Machine{Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0)}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		h.CPU = cpuModel(string(info))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		h.Load = loadAverages(string(load))
	}
	return h
}

func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func loadAverages(loadavg string) []float64 {
	load := make([]float64, 3)
	if _, err := fmt.Sscan(loadavg, &load[0], &load[1], &load[2]); err != nil {
		return nil
	}
	return load
}
