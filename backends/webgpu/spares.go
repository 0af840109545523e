//go:build webgpu && linux && cgo

package webgpu

import (
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
)

// spares are buffers that were used for a copy, for the next one. A new buffer costs as much as a small copy. They are not of the pool:
// work that uses them may be unfinished.
type spares struct {
	mu   sync.Mutex
	free map[wgpu.Usage][]*buffer
}

// How many buffers of a usage are kept, and up to which size. Those that are mapped are only kept for a piece, which may begin within a
// word: larger ones are for the parts of strided copies.
const (
	maxSpares = 4
	maxSpare  = 64 << 20
	maxMapped = piece + unit
)

// take returns a buffer of at least size bytes, which the caller gives back. Its contents are undefined.
func (s *spares) take(d *device, usage wgpu.Usage, size int64) (*buffer, error) {
	s.mu.Lock()
	free := s.free[usage]
	for i, b := range free {
		if b.size >= size {
			s.free[usage] = slices.Delete(free, i, i+1)
			s.mu.Unlock()
			return b, nil
		}
	}
	s.mu.Unlock()
	return d.newBuffer("Copy", usage, size)
}

// giveBack takes a buffer whose work is done or submitted: what uses it next is submitted later.
func (s *spares) giveBack(b *buffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.size > maxSpare || b.usage != wgpu.Memory && b.size > maxMapped {
		release(b.handle)
		return
	}
	if s.free == nil {
		s.free = make(map[wgpu.Usage][]*buffer)
	}
	free := append(s.free[b.usage], b)
	if len(free) > maxSpares {
		release(free[0].handle)
		free = free[1:]
	}
	s.free[b.usage] = free
}

// release releases all that were given back, and reports whether there were any.
func (s *spares) release() bool {
	s.mu.Lock()
	free := s.free
	s.free = nil
	s.mu.Unlock()
	some := false
	for _, list := range free {
		for _, b := range list {
			release(b.handle)
			some = true
		}
	}
	return some
}
