// Package doctor finds out which ways of sharing work between two processes of one machine, and
// why others do not.
//
// One process asks, and the other one answers. [Pair] starts the other process, [Dial] connects
// to one that runs [Listen], and [Process] looks at a process that does not know of this
// package. Each way is tried: one process writes a pattern, the other one reads it, compares it
// and, where the memory is shared, changes it. If a way fails, the [Finding] has what the system
// said, and the reason that follows from what is known of both processes: their namespaces,
// users, capabilities and filters. A reason that does not follow from that alone is marked as
// probable.
//
// Both processes check all that the other one says. DESIGN.md has the reasons for how it is made.
// The package works on Linux; on other systems its functions return core.ErrNotSupported.
package doctor
