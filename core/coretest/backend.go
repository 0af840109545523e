package coretest

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// deviceCount is how many devices the backend has.
const deviceCount = 2

// Options shape the simulated backend. The zero value cannot copy.
type Options struct {
	// Submit is stream.Submit, by which copies keep order; it is given since this
	// package stands below stream. A test of tests may give one that does less.
	// Copies fail with core.ErrNotSupported without it.
	Submit func(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error
	// Seed decides what runs before what; 0 draws one.
	Seed uint64
	// Log is told the seed, as testing.T.Logf would print it. May be nil.
	Log func(format string, args ...any)
	// HostWaits makes streams refuse to wait for any event, so that the host has to.
	HostWaits bool
	// Opaque makes the devices webgpu:0 and webgpu:1, whose memory has handles and
	// offsets beside them instead of addresses. They also offer core.HostViewer
	// (for memory allocated so), core.StreamImporter and, where the system has
	// descriptors, core.MemoryExporter and core.MemoryImporter of opaque ones.
	Opaque bool
}

// Backend is a simulated backend of two devices, ext_dev:0 and ext_dev:1, which
// is hard on those who use it, within what the interfaces of core allow:
//
//   - Work on a stream runs when somebody waits for it and not before, and what
//     else runs with it is drawn by lot. A missing wait shows as wrong data.
//   - Memory is filled with rubbish when it is allocated and when it is freed, and
//     what was freed last is allocated first. A use after free shows as wrong data.
//   - A host that uses an address of the device faults. Opaque handles are small
//     numbers; several allocations have the same one, with different offsets.
//   - Every call fails when a test says so, see [Backend.Fail] and [Backend.Lose].
//
// It is safe for concurrent use.
type Backend struct {
	options   Options
	scheduler *scheduler
	objects   objects

	mu     sync.Mutex
	faults []*fault
	lost   [deviceCount]bool
}

var _ core.Backend = (*Backend)(nil)

// fault makes a call fail.
type fault struct {
	call  string
	after int // calls that go well before
	err   error
	fired bool
}

// NewBackend makes a backend of its own: nothing is shared with others.
func NewBackend(o Options) *Backend {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Log != nil {
		o.Log("simulated backend: seed %d", o.Seed)
	}
	c := &scheduler{random: rand.New(rand.NewPCG(o.Seed, 0))}
	c.changed.L = &c.mu
	return &Backend{options: o, scheduler: c}
}

// Fail makes the n-th call from now of a method of devices or streams fail with
// err; 1 is the next. Calls go by the method's name, "Alloc" or "Record"; the call
// "work" is a piece of work that runs on a stream, whose error shows in events.
// The error that comes out is a [*core.Error] around err. fired tells whether the
// call was reached.
func (b *Backend) Fail(call string, n int, err error) (fired func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &fault{call: call, after: n - 1, err: err}
	b.faults = append(b.faults, f)
	return func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return f.fired
	}
}

// Lose takes a device away: from now on its calls and its unfinished work fail
// with core.ErrDeviceLost. Only closing and freeing still work.
func (b *Backend) Lose(index int32) {
	b.mu.Lock()
	b.lost[index] = true
	b.mu.Unlock()
	c := b.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast() // nothing blocks on a lost device
}

// Step does one step of some stream that can go on, drawn by lot, as if time had
// passed, and reports whether there was one.
func (b *Backend) Step() bool {
	c := b.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.anyReady()
	if s != nil {
		c.run(s)
	}
	return s != nil
}

// call says whether a call of a device fails.
func (b *Backend) call(call string, index int32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		if f.call != call || f.fired {
			continue
		}
		if f.after == 0 {
			f.fired = true
			return b.errorf(f.err, call, "the test made this call fail")
		}
		f.after--
	}
	if b.lost[index] {
		return b.errorf(core.ErrDeviceLost, call, "the test took device %d away", index)
	}
	return nil
}

// deviceType is the type of the backend's devices and their memory.
func (b *Backend) deviceType() core.DeviceType {
	if b.options.Opaque {
		return core.DeviceWebGPU
	}
	return core.DeviceExt
}

// Name is "ext_dev" or, with Options.Opaque, "webgpu".
func (b *Backend) Name() string { return b.deviceType().String() }

// errorf makes an error of the backend.
func (b *Backend) errorf(err error, call, format string, args ...any) error {
	return core.Errorf(err, b.Name(), call, format, args...)
}

// Probe says that the backend is there.
func (b *Backend) Probe(ctx context.Context) core.Probe {
	return core.Probe{Available: true, Version: "simulated"}
}

// Devices lists the two devices.
func (b *Backend) Devices(ctx context.Context) ([]core.Properties, error) {
	list := make([]core.Properties, deviceCount)
	for i := range list {
		list[i] = b.properties(int32(i))
	}
	return list, nil
}

func (b *Backend) properties(index int32) core.Properties {
	p := core.Properties{
		ID:        core.DeviceID{Type: b.deviceType(), Index: index},
		Name:      "dlx simulated device",
		Alignment: alignment,
		Capabilities: core.CapAsync | core.CapStreamWait | core.CapImportPointer | core.CapMapHost |
			core.CapSemaphores | core.CapPeer | core.CapPool | core.CapSubByte,
	}
	if b.options.Opaque {
		p.UUID, p.DriverUUID = core.UUID{0xd1, byte(index)}, core.UUID{0xd1}
		p.Capabilities |= opaqueCapabilities
	}
	if b.options.HostWaits {
		p.Capabilities &^= core.CapStreamWait
	}
	return p
}

// Open opens a device. The result is a [*Device].
func (b *Backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	if id.Type != b.deviceType() || id.Index < 0 || id.Index >= deviceCount {
		return nil, b.errorf(core.ErrDevice, "Open", "there is no %v, only %[2]s:0 and %[2]s:1", id, b.Name())
	}
	if err := b.call("Open", id.Index); err != nil {
		return nil, err
	}
	liveDevices.Add(1)
	return &Device{backend: b, id: id}, nil
}
