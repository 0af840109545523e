//go:build !linux

package share

func runChild(string) {}
