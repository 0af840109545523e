package cpu

import "golang.org/x/sys/unix"

// processorName is the brand string, or empty.
func processorName() string {
	name, _ := unix.Sysctl("machdep.cpu.brand_string")
	return name
}

// totalMemory is the size of the machine's memory in bytes, 0 if unknown.
func totalMemory() int64 {
	n, _ := unix.SysctlUint64("hw.memsize")
	return int64(n)
}

// freeMemory is not known here.
func freeMemory() int64 { return 0 }
