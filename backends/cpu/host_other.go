//go:build !linux && !darwin && !windows

package cpu

func processorName() string { return "" }

func totalMemory() int64 { return 0 }

// freeMemory is not known here.
func freeMemory() int64 { return 0 }
