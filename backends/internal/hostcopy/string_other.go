//go:build !amd64 || race || asan || msan

package hostcopy

const hasString = false

func moveString(_, _ *byte, _ int) { panic("moveString is only for amd64") }
