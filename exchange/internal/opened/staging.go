package opened

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// StagingBuffers is how many pieces of staging memory are kept for each device.
const StagingBuffers = staging.Buffers

// Staging is memory of a device that the host views. The zero value is none.
type Staging struct {
	Own  *core.Tensor // uint8, as the device knows the memory
	View *core.Tensor // the same memory as the host knows it
}

func (s Staging) close() { _, _ = s.View.Close(), s.Own.Close() }

// TakeStaging returns size bytes of host-visible memory of d, which the caller gives
// back by [Cache.GiveStaging]. Callers ask for one size only. It returns the zero
// value if d has no such memory.
func (c *Cache) TakeStaging(ctx context.Context, d core.Device, size int64) Staging {
	v, ok := core.As[core.HostViewer](d)
	if !ok || !c.watch(d) {
		return Staging{}
	}
	c.mu.Lock()
	if kept := c.devices[d]; kept != nil && len(kept.staging) > 0 {
		last := len(kept.staging) - 1
		s := kept.staging[last]
		kept.staging = kept.staging[:last]
		c.mu.Unlock()
		return s
	}
	c.mu.Unlock()

	m, err := core.Alloc(ctx, d, size, core.AllocOptions{HostVisible: true})
	if err != nil {
		return Staging{}
	}
	m.Owner = c.blockClose(m.Owner, d)
	spec := core.Spec{DType: core.TypeUint8, Shape: []int64{size}}
	own, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
		return Staging{}
	}
	view, err := c.hostView(ctx, v, own, spec)
	if err != nil {
		_ = own.Close()
		return Staging{}
	}
	return Staging{own, view}
}

// hostView makes a tensor on the host's view of own's memory.
func (c *Cache) hostView(ctx context.Context, v core.HostViewer, own *core.Tensor, s core.Spec) (*core.Tensor, error) {
	b, err := own.Buffer()
	if err != nil {
		return nil, err
	}
	m, err := v.HostView(ctx, b)
	if err != nil {
		return nil, err
	}
	return c.WrapBorrowed(m, b, s, own.Device())
}

// GiveStaging keeps memory for the next staged copy, until the device closes. Work
// on it may be unfinished.
func (c *Cache) GiveStaging(s Staging) {
	c.mu.Lock()
	kept := c.devices[s.Own.Device()]
	keep := kept != nil && len(kept.staging) < StagingBuffers
	if keep {
		kept.staging = append(kept.staging, s)
		c.unblocked.Broadcast() // a Close of the device may be waiting for the memory
	}
	c.mu.Unlock()
	if !keep {
		s.close()
	}
}
