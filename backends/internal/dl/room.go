package dl

// Room is what a driver that computes on the processors needs at its start.
type Room struct {
	Threads int   // in addition to one for each processor
	Fewer   bool  // the driver also works with fewer threads
	Bytes   int64 // of address space that must be free after the threads have theirs
}

// Check fails with core.ErrOutOfMemory if the address space of the process is limited (RLIMIT_AS, ulimit -v)
// and too small. It is for calls of drivers that end the process when they get no thread or no memory. Check
// starts the threads and ends them again. The address space that they took stays with the process, for the
// driver's threads.
func (r Room) Check(backend, call string) error { return r.check(backend, call) }
