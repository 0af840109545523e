package cpu

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processorName is the model in /proc/cpuinfo, which has none on arm64.
func processorName() string { return lookUp("/proc/cpuinfo", "model name") }

// freeMemory is how much memory programs can still get without swapping, in bytes.
func freeMemory() int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(lookUp("/proc/meminfo", "MemAvailable"), " kB"), 10, 53)
	if err != nil {
		return 0
	}
	return n << 10
}

// lookUp returns the first value of a key in a file of lines "key: value", empty if there is none.
func lookUp(path, key string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// totalMemory is the size of the machine's memory in bytes.
func totalMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
