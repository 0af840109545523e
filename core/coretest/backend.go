package coretest

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// deviceCount is the number of devices of the backend.
const deviceCount = 2

// Options are the options of [NewBackend]. Without Submit, the devices cannot copy.
type Options struct {
	// Submit keeps the order of copies. Pass Submit of package stream, which this
	// package cannot import. A test of the test tools may pass a function that does
	// less. If Submit is nil, copies fail with core.ErrNotSupported.
	Submit func(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error
	// Seed seeds the random order in which work runs. 0 means a random seed.
	Seed uint64
	// Log is called once with the seed, such as testing.T.Logf. It may be nil.
	Log func(format string, args ...any)
	// HostWaits makes Wait of every stream return core.ErrNotSupported, so that the
	// host has to wait.
	HostWaits bool
	// Opaque makes devices webgpu:0 and webgpu:1, whose memory has opaque handles and
	// offsets instead of addresses. They also offer core.HostViewer, for memory
	// allocated with AllocOptions.HostVisible, and core.StreamImporter. On Unix they
	// offer core.MemoryExporter and core.MemoryImporter for opaque descriptors.
	Opaque bool
	// Files makes devices read files. Without it, their core.FileReader fails with
	// core.ErrNotSupported.
	Files bool
	// Converts makes devices convert elements. Without it, their core.Converter fails with
	// core.ErrNotSupported.
	Converts bool
}

// Backend is a simulated backend with two devices, ext_dev:0 and ext_dev:1. Within the
// rules of the interfaces of core, it behaves so that errors in its users show:
//
//   - Work on a stream runs only when a caller waits for it. Other work that may run at
//     that time is chosen at random. A missing wait shows as wrong data.
//   - Memory is filled with a pattern when it is allocated and when it is freed, and the
//     memory that was freed last is reused first. A use after free shows as wrong data.
//   - The host faults when it uses an address of the device. Opaque handles are small
//     numbers, and several allocations share one handle with different offsets.
//   - A test can make every call fail, see [Backend.Fail] and [Backend.Lose].
//
// A Backend is safe for concurrent use.
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
	after int // number of calls that succeed first
	err   error
	fired bool
}

// NewBackend makes a backend. Backends share no state.
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

// Fail makes one call of a method of a device or stream fail: the n-th one from now, where 1
// is the next. call is the name of the method, such as "Alloc" or "Record". The name "work"
// stands for a piece of work that runs on a stream; its error is reported by events. The
// call returns a [*core.Error] that wraps err. fired reports whether the call has failed.
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

// Lose simulates the loss of a device. From now on, its calls and its unfinished work fail
// with core.ErrDeviceLost, except for closing and freeing.
func (b *Backend) Lose(index int32) {
	b.mu.Lock()
	b.lost[index] = true
	b.mu.Unlock()
	c := b.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast() // work on a lost device no longer blocks
}

// Step runs one step of a random stream that is not blocked, as if time had passed. It
// reports whether there was one.
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

// call returns an error if a call of a device is to fail.
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
		return b.errorf(core.ErrDeviceLost, call, "the test made device %d fail", index)
	}
	return nil
}

// deviceType returns the type of the backend's devices and of their memory.
func (b *Backend) deviceType() core.DeviceType {
	if b.options.Opaque {
		return core.DeviceWebGPU
	}
	return core.DeviceExt
}

// Name returns "ext_dev" or, with Options.Opaque, "webgpu".
func (b *Backend) Name() string { return b.deviceType().String() }

// errorf returns an error of the backend.
func (b *Backend) errorf(err error, call, format string, args ...any) error {
	return core.Errorf(err, b.Name(), call, format, args...)
}

// Probe reports that the backend is available.
func (b *Backend) Probe(ctx context.Context) core.Probe {
	return core.Probe{Available: true, Version: "simulated"}
}

// Devices returns the two devices.
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
			core.CapSemaphores | core.CapPeer | core.CapPool | core.CapSubByte | core.CapBatchCopy | core.CapDeviceClock,
	}
	if b.options.Opaque {
		p.UUID, p.DriverUUID = core.UUID{0xd1, byte(index)}, core.UUID{0xd1}
		p.Capabilities |= opaqueCapabilities
	}
	if b.options.Converts {
		p.Capabilities |= core.CapConvert
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
