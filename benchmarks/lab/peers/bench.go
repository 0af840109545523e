package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
)

// bench is what the adapters measure with.
type bench struct {
	registry *core.Registry
	python   string // of .venv-peers
	rounds   int
	length   time.Duration // of a sample
	log      io.Writer
	small    bool // tensors of a few kilobytes, to test that the adapters work
}

// peer is an adapter. run measures by itself, or gives rows that say why it could not; it never fails.
type peer struct {
	name, title string
	run         func(ctx context.Context, b *bench) []Row
	before      bool // the figures were measured before, by another command
}

// peers lists the adapters by the order of the table.
func peers() []peer {
	return []peer{
		{"stream", "memcpy and the loops of STREAM, in C", runStream, false},
		{"numpy", "NumPy's copyto", runNumPy, false},
		{"torch", "PyTorch's copies on the host", runTorch, false},
		{"clpeak", "clpeak's transfers over OpenCL", runClpeak, false},
		{"wgpu", "wgpu-native's transfers over Vulkan", runWGPU, false},
		{"ucx", "ucx_perftest over shared memory, beside memory that two processes of dlx share", runUCX, false},
		{remotePeer, "ucx_perftest over TCP and shared memory, beside package remote, both polling", runRemote, false},
		{"dlpack", "nanobind, tvm-ffi, torch and NumPy exchange tensors by DLPack, measured by make bench-interop", runInterop, true},
		{"nvbandwidth", "nvbandwidth on a card", runNVBandwidth, false},
	}
}

// choose returns the peers that a list names, or all but package remote.
func choose(list string) ([]peer, error) {
	all := peers()
	if list == "" {
		return slices.DeleteFunc(all, func(p peer) bool { return p.name == remotePeer }), nil
	}
	var chosen []peer
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(p peer) bool { return p.name == name })
		if i < 0 {
			var names []string
			for _, p := range all {
				names = append(names, p.name)
			}
			return nil, fmt.Errorf("there is no peer %q: the peers are %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// tensor allocates bytes on a device and sets each of them: pages that were never written to are faster to read.
// The caller closes the result.
func (b *bench) tensor(ctx context.Context, d core.Device, size int64, opts core.AllocOptions) (*core.Tensor, error) {
	host, err := b.registry.Open(ctx, core.CPU)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	content, err := core.Empty(ctx, host, core.TypeUint8, []int64{size}, core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	defer content.Close()
	bytes, err := core.Mutable[uint8](content)
	if err != nil {
		return nil, err
	}
	fill(bytes)
	t, err := core.Empty(ctx, d, core.TypeUint8, []int64{size}, opts)
	if err != nil {
		return nil, err
	}
	if err := d.Copy(ctx, nil, t, content); err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

// fill writes a pattern without a short period.
func fill(b []byte) {
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}

// place is where one end of a copy is.
type place struct {
	device core.DeviceID
	kind   core.DeviceType // of memory, such as core.DeviceCUDAHost; 0 for the device's own
}

var host = place{device: core.CPU}

// copier copies between two tensors of the same size. Its owner closes it.
type copier struct {
	device   core.Device
	stream   core.Stream // nil for copies that are done when they return
	opened   map[core.DeviceID]core.Device
	dst, src *core.Tensor
}

// newCopier makes a copier whose copies are made by the device by.
func (b *bench) newCopier(ctx context.Context, by core.DeviceID, dst, src place, size int64) (c *copier, err error) {
	c = &copier{opened: map[core.DeviceID]core.Device{}}
	defer func() {
		if err != nil {
			c.close()
			c = nil
		}
	}()
	open := func(id core.DeviceID) (core.Device, error) {
		if d, ok := c.opened[id]; ok {
			return d, nil
		}
		d, err := b.registry.Open(ctx, id)
		if err == nil {
			c.opened[id] = d
		}
		return d, err
	}
	if c.device, err = open(by); err != nil {
		return c, err
	}
	if name := c.device.Properties().Name; strings.HasPrefix(name, "dlx simulated") && !b.small {
		return c, notSupported("%v is a %s, which is not measured", by, name)
	}
	for _, end := range []struct {
		place
		t **core.Tensor
	}{{dst, &c.dst}, {src, &c.src}} {
		at, err := open(end.device)
		if err != nil {
			return c, err
		}
		if *end.t, err = b.tensor(ctx, at, size, core.AllocOptions{Type: end.kind}); err != nil {
			return c, err
		}
	}
	return c, nil
}

// series measures the copies with so many threads of Go. The number is set off the clock.
func (c *copier) series(ctx context.Context, name string, threads int) *series {
	return &series{name: name, sample: func(n int) (time.Duration, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		start := time.Now()
		for range n {
			if err := c.device.Copy(ctx, c.stream, c.dst, c.src); err != nil {
				return 0, err
			}
		}
		if c.stream != nil {
			if err := c.stream.Synchronize(ctx); err != nil {
				return 0, err
			}
		}
		return time.Since(start), nil
	}}
}

func (c *copier) close() {
	if c.stream != nil {
		_ = c.stream.Close()
	}
	for _, t := range []*core.Tensor{c.dst, c.src} {
		if t != nil {
			_ = t.Close()
		}
	}
	for _, d := range c.opened {
		_ = d.Close() // what is left open shows in the live counters
	}
}

// threadCounts are 1 and as many as Go runs at a time.
func threadCounts() []int {
	if most := runtime.GOMAXPROCS(0); most > 1 {
		return []int{1, most}
	}
	return []int{1}
}

// sizes are those of the copies: what fits into a cache of each processor, into the last cache, and into no cache.
func (b *bench) sizes() []int64 {
	if b.small {
		return []int64{16 << 10}
	}
	return []int64{64 << 10, 1 << 20, 64 << 20}
}
