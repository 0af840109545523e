package backendtest

import "github.com/dlx-go/dlx/core"

var poolCases = []Case{
	{
		Name:  "pool/in-use",
		Rule:  "core.PoolStats: InUse and Requested count the bytes in use, Peak is the highest InUse, Allocs counts the calls",
		Needs: core.CapPool,
		run:   casePoolInUse,
	},
	{
		Name:  "pool/reuse",
		Rule:  "core.PoolStats: freed memory is Cached, and an Alloc of its size is a hit",
		Needs: core.CapPool,
		run:   casePoolReuse,
	},
	{
		Name:  "pool/limit",
		Rule:  "core.PoolController.SetPoolLimit: bounds InUse + Cached; an Alloc beyond it fails with ErrOutOfMemory and is counted; memory in use is never taken back; 0 removes the limit",
		Needs: core.CapPool,
		run:   casePoolLimit,
	},
	{
		Name:  "pool/trim",
		Rule:  "core.PoolController.TrimPool: returns cached memory to the driver, and does not change memory in use",
		Needs: core.CapPool,
		run:   casePoolTrim,
	},
}

func casePoolInUse(e *env) {
	pool := as[core.PoolController](e)
	start := pool.PoolStats()
	t := e.bytes(100_000)
	on := pool.PoolStats()
	if on.Requested-start.Requested != 100_000 || on.InUse-start.InUse < 100_000 || on.Allocs-start.Allocs != 1 || on.Peak < on.InUse {
		e.Errorf("after Alloc(100000): %+v, before: %+v", on, start)
	}
	_ = t.Close()
	off := pool.PoolStats()
	if off.Requested != start.Requested || off.InUse != start.InUse || off.Peak != on.Peak {
		e.Errorf("after the memory was freed: %+v, at the start: %+v, in between: %+v", off, start, on)
	}
}

func casePoolReuse(e *env) {
	pool := as[core.PoolController](e)
	_ = e.bytes(100_000).Close()
	before := pool.PoolStats()
	if before.Cached < 100_000 {
		e.Errorf("100000 bytes were freed, %d are cached", before.Cached)
	}
	e.bytes(100_000)
	after := pool.PoolStats()
	if after.Hits-before.Hits != 1 || after.Cached >= before.Cached {
		e.Errorf("Alloc of a size that is cached: %+v, before: %+v", after, before)
	}
}

func casePoolLimit(e *env) {
	pool := as[core.PoolController](e)
	const size = 1 << 20
	content := e.pattern(size)
	held := e.upload(content)
	before := pool.PoolStats()
	pool.SetPoolLimit(before.InUse + size/2)
	e.Cleanup(func() { pool.SetPoolLimit(0) })
	m, err := e.dev.Alloc(e.ctx, size, core.AllocOptions{})
	e.wantError(err, core.ErrOutOfMemory, "Alloc beyond the limit")
	if err == nil {
		m.Free()
	}
	after := pool.PoolStats()
	if after.Limit != before.InUse+size/2 || after.Failures-before.Failures != 1 || after.InUse+after.Cached > after.Limit {
		e.Errorf("after the limit was met: %+v, before: %+v", after, before)
	}
	pool.SetPoolLimit(1)
	e.wantBytes(held, content, "memory in use under a limit below it")
	_ = held.Close()
	if s := pool.PoolStats(); s.Cached > 1 {
		e.Errorf("a limit of 1 byte, but %d are cached", s.Cached)
	}
	pool.SetPoolLimit(0)
	e.upload(content)
}

func casePoolTrim(e *env) {
	pool := as[core.PoolController](e)
	content := e.pattern(100_000)
	held := e.upload(content)
	_ = e.bytes(100_000).Close()
	before := pool.PoolStats()
	pool.TrimPool() // may keep what hangs together with memory in use
	if after := pool.PoolStats(); after.InUse != before.InUse || after.Cached > before.Cached {
		e.Errorf("after TrimPool: %+v, before: %+v", after, before)
	}
	e.wantBytes(held, content, "memory in use after TrimPool")
	_ = held.Close()
	pool.TrimPool()
	if s := pool.PoolStats(); s.Cached != 0 {
		e.Errorf("after TrimPool, with no memory in use, %d bytes are cached", s.Cached)
	}
	e.upload(content)
}
