package dl

// Room is what a driver that computes on the processors takes when it starts.
type Room struct {
	Threads int   // beside one for each processor
	Fewer   bool  // the driver does with fewer threads
	Bytes   int64 // what must be left when the threads have their memory
}

// Check fails with core.ErrOutOfMemory if the address space of the process is bounded
// (RLIMIT_AS, ulimit -v) and has no such room. It is for calls of drivers that end the
// process when they get no thread or no memory. It starts as many threads and ends
// them: what these take of the process stays for those of the driver.
func (r Room) Check(backend, call string) error { return r.check(backend, call) }
