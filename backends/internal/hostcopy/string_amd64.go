//go:build !race && !asan && !msan

package hostcopy

import "golang.org/x/sys/cpu"

// hasString reports whether moveString is fast. The sanitizers do not see what it reads and writes.
var hasString = cpu.X86.HasERMS

// moveString copies n bytes by REP MOVSB.
//
//go:noescape
func moveString(to, from *byte, n int)
