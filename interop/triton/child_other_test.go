//go:build !linux

package triton

// runChild is for systems with regions.
func runChild(string) {}
