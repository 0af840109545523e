package blockpool

import "time"

// clock counts periods of [Pool].Idle while something is kept. Between them no goroutine waits.
type clock struct {
	timer   *time.Timer
	running bool
	stopped bool // for good
	period  int
}

const (
	keptShare  = 8                // of a device's memory, one part is kept
	idlePeriod = 10 * time.Second // as jemalloc keeps unused pages
)

// Bound sets Keep to an eighth of the memory of a device, and Idle to 10 seconds. backends/cuda/DESIGN.md has the reasons.
func (p *Pool[C, B]) Bound(memory int64) { p.Keep, p.Idle = memory/keptShare, idlePeriod }

// wind starts the next period if something is kept.
func (p *Pool[C, B]) wind() {
	c := &p.clock
	if c.running || c.stopped || p.Idle <= 0 || p.Stats.Cached == 0 {
		return
	}
	c.running = true
	if c.timer == nil {
		c.timer = time.AfterFunc(p.Idle, p.Tick)
	} else {
		c.timer.Reset(p.Idle)
	}
}

// Tick ends a period: it destroys the free blocks that were not used in it. The timer calls Tick; it is exported for tests.
// It locks the mutex.
func (p *Pool[C, B]) Tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.clock
	c.running = false
	if c.stopped {
		return
	}
	p.settle()
	c.period++
	p.drop(p.Stats.Cached, c.period-1)
	p.wind()
}

func (c *clock) stop() {
	c.stopped = true
	if c.timer != nil {
		c.timer.Stop()
	}
}
