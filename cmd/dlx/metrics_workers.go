package main

import (
	"sync"

	"github.com/dlx-go/dlx/core"
)

// processMetrics are the metrics of this process and of those that measure for it, one after the other. It is safe for
// concurrent use. The zero value is ready for use.
type processMetrics struct {
	mu      sync.Mutex
	ended   core.Metrics // of processes that came before the current one
	current core.Metrics
	id      int // of the process of current
}

// note takes the metrics of a process that measures, from its start on. The process before it has ended then.
func (p *processMetrics) note(id int, m core.Metrics) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id != p.id {
		p.ended = p.ended.Plus(p.current.Ended())
	}
	p.id, p.current = id, m
}

// read returns the metrics of all the processes together.
func (p *processMetrics) read() core.Metrics {
	own := core.ReadMetrics()
	p.mu.Lock()
	defer p.mu.Unlock()
	return own.Plus(p.ended).Plus(p.current)
}
