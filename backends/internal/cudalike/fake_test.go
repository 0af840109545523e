package cudalike_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert/gpuconverttest"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// fake is a driver of two devices, which are memory and queues of the host. It has only what every API must have.
type fake struct {
	hostFuncs *cudalike.HostFuncs

	mu      sync.Mutex
	last    uintptr
	memory  map[uintptr]allocation
	streams map[uintptr]fakeStream
	events  map[uintptr]core.Event
	times   map[uintptr]time.Time // of timed events; zero before they are done

	images []string // that LoadModule was called with
	loaded int      // modules
}

type allocation struct {
	bytes   []byte
	kind    cudalike.MemoryType
	managed bool
	of      fakeContext
}

type fakeStream struct {
	*stream.Queue
	of cudalike.ContextID
}

func newFake(name string) *fake {
	return &fake{
		hostFuncs: cudalike.NewHostFuncs(name),
		memory:    make(map[uintptr]allocation), streams: make(map[uintptr]fakeStream), events: make(map[uintptr]core.Event), times: make(map[uintptr]time.Time),
	}
}

func (f *fake) Load() (s cudalike.Status, err error) { return s, nil }

func (f *fake) Text(code int32) string { return "code " + strconv.Itoa(int(code)) }

func (f *fake) Version() string { return "1.2" }

func (f *fake) Devices() (n int, s cudalike.Status) { return 2, s }

func (f *fake) Describe(ordinal int32) (x cudalike.Description, s cudalike.Status) {
	const missing = "the fake has none"
	return cudalike.Description{
		Name: "fake", UUID: core.UUID{byte(ordinal + 1)}, TotalMemory: 1 << 30, ComputeUnits: 1,
		NoDescriptors: missing, NoExternal: missing, NoDMABufs: missing, NoIPC: missing, NoIPCEvents: missing, NoTimelines: missing,
	}, s
}

func (f *fake) CanAccessPeer(ordinal, peer int32) (can bool, s cudalike.Status) { return true, s }

func (f *fake) Granularity(int32, core.HandleType, bool) (bytes int64, s cudalike.Status) {
	return 1, s
}

func (f *fake) Retain(ordinal int32) (c cudalike.Context, s cudalike.Status) {
	return fakeContext{fake: f, ordinal: ordinal}, s
}

// Release closes the device's default stream, if it was used.
func (f *fake) Release(ordinal int32) (s cudalike.Status) {
	c := fakeContext{fake: f, ordinal: ordinal}
	if q := c.streams[c.defaultStream()]; q.Queue != nil {
		return c.DestroyStream(c.defaultStream())
	}
	return s
}

// number returns a new handle.
func (f *fake) number() uintptr {
	f.last++
	return f.last + 100 // small numbers are not streams
}

// fakeContext has the methods that a device with the fake's description calls. Other methods panic.
type fakeContext struct {
	cudalike.Context // nil
	*fake
	ordinal int32
}

func (c fakeContext) ID() cudalike.ContextID { return cudalike.ContextID(c.ordinal + 1) }

func (c fakeContext) allocate(size int64, kind cudalike.MemoryType) (p uintptr, s cudalike.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const alignment = 256
	bytes := make([]byte, size+alignment)
	p = uintptr(unsafe.Pointer(&bytes[0]))
	p += -p % alignment
	c.memory[p] = allocation{bytes: bytes, kind: kind, of: c}
	return p, s
}

func (c fakeContext) Alloc(size int64) (uintptr, cudalike.Status) {
	return c.allocate(size, cudalike.DeviceMemory)
}

func (c fakeContext) AllocManaged(size int64) (uintptr, cudalike.Status) {
	p, s := c.allocate(size, cudalike.DeviceMemory)
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.memory[p]
	a.managed = true
	c.memory[p] = a
	return p, s
}

func (c fakeContext) AllocHost(size int64) (uintptr, cudalike.Status) {
	return c.allocate(size, cudalike.HostMemory)
}

func (c fakeContext) Free(p uintptr) (s cudalike.Status) {
	c.mu.Lock()
	streams := make([]*stream.Queue, 0, len(c.streams))
	for _, q := range c.streams {
		streams = append(streams, q.Queue)
	}
	c.mu.Unlock()
	for _, q := range streams {
		_ = q.Synchronize(context.Background())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memory, p)
	return s
}

func (c fakeContext) FreeHost(p uintptr) cudalike.Status { return c.Free(p) }

func (c fakeContext) Pointer(p uintptr) (x cudalike.Pointer, s cudalike.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for start, a := range c.memory {
		end := uintptr(unsafe.Pointer(unsafe.SliceData(a.bytes))) + uintptr(len(a.bytes))
		if start <= p && p < end {
			x = cudalike.Pointer{Type: a.kind, Managed: a.managed, Context: a.of.ID(), Device: a.of.ordinal, Start: start, Size: int64(end - start)}
			if a.kind == cudalike.HostMemory {
				x.Host = p
			}
		}
	}
	return x, s
}

func (c fakeContext) FreeMemory() (n int64, s cudalike.Status) { return 1 << 30, s }

func (c fakeContext) IsHostAllocation(p uintptr) bool {
	x, _ := c.Pointer(p)
	return x.Type == cudalike.HostMemory
}

func (c fakeContext) NewStream() (n uintptr, s cudalike.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = c.number()
	c.streams[n] = fakeStream{stream.NewQueue(nil), c.ID()}
	return n, s
}

// defaultStream is the handle of the stream 0.
func (c fakeContext) defaultStream() uintptr { return uintptr(10 + c.ordinal) }

func (c fakeContext) stream(n uintptr) fakeStream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == 0 {
		if n = c.defaultStream(); c.streams[n].Queue == nil {
			c.streams[n] = fakeStream{stream.NewQueue(nil), c.ID()}
		}
	}
	return c.streams[n]
}

func (c fakeContext) DestroyStream(n uintptr) cudalike.Status {
	q := c.stream(n)
	c.mu.Lock()
	delete(c.streams, n)
	c.mu.Unlock()
	return result("DestroyStream", q.Close())
}

func (c fakeContext) StreamContext(n uintptr) (cudalike.ContextID, cudalike.Status) {
	if q := c.stream(n); q.Queue != nil {
		return q.of, cudalike.Status{}
	}
	return 0, cudalike.Status{Call: "StreamContext", Code: 1, Kind: cudalike.BadHandle}
}

func (c fakeContext) Synchronize(n uintptr) cudalike.Status {
	return result("Synchronize", c.stream(n).Synchronize(context.Background()))
}

func (c fakeContext) CheckCapture(uintptr) (s cudalike.Status) { return s }

func (c fakeContext) NewEvent(timed bool) (n uintptr, s cudalike.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = c.number()
	if timed {
		c.times[n] = time.Time{}
	}
	return n, s
}

func (c fakeContext) DestroyEvent(n uintptr) (s cudalike.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.events, n)
	delete(c.times, n)
	return s
}

func (c fakeContext) event(n uintptr) core.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[n]
}

func (c fakeContext) RecordEvent(n, on uintptr) cudalike.Status {
	if s := c.recordTime(n, on); !s.OK() {
		return s
	}
	e, err := c.stream(on).Record()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[n] = e
	return result("RecordEvent", err)
}

// recordTime makes a timed event record the time.
func (c fakeContext) recordTime(n, on uintptr) (s cudalike.Status) {
	c.mu.Lock()
	_, timed := c.times[n]
	c.mu.Unlock()
	if !timed {
		return s
	}
	return result("RecordEvent", c.stream(on).Enqueue(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, open := c.times[n]; open {
			c.times[n] = time.Now()
		}
		return nil
	}))
}

func (c fakeContext) WaitEvent(on, n uintptr) cudalike.Status {
	return result("WaitEvent", c.stream(on).Wait(c.event(n)))
}

func (c fakeContext) Query(n uintptr) (s cudalike.Status) {
	if done, err := c.event(n).Done(); done {
		return result("Query", err)
	}
	return cudalike.Status{Call: "Query", Code: 2, Kind: cudalike.NotReady}
}

func (c fakeContext) Elapsed(from, to uintptr) (time.Duration, cudalike.Status) {
	for _, n := range []uintptr{from, to} {
		if s := c.Query(n); !s.OK() {
			return 0, s
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	start, end := c.times[from], c.times[to]
	if start.IsZero() || end.IsZero() {
		return 0, cudalike.Status{Call: "Elapsed", Code: 1, Kind: cudalike.BadHandle}
	}
	return end.Sub(start), cudalike.Status{}
}

// do enqueues a copy on a stream.
func (c fakeContext) do(on uintptr, call string, dst, src uintptr, x copyplan.Copy) cudalike.Status {
	return result(call, c.stream(on).Enqueue(func() error { return hostcopy.Run(dst, src, x, false, 1) }))
}

// Copy does not record every second event.
func (c fakeContext) Copy(dst, src uintptr, n int64, on, event uintptr) (recorded bool, s cudalike.Status) {
	x := copyplan.Copy{Elem: n}
	for _, p := range []uintptr{dst, src} {
		if a, _ := c.Pointer(p); a.Type == 0 { // host memory that is not pinned
			return false, result("Copy", hostcopy.Run(dst, src, x, false, 1))
		}
	}
	s = c.do(on, "Copy", dst, src, x)
	if s.OK() && event%4 == 0 && event != 0 {
		recorded = c.RecordEvent(event, on).OK()
	}
	return recorded, s
}

// CopyBatch begins with the last piece.
func (c fakeContext) CopyBatch(p cudalike.Pieces, on, event uintptr) (recorded bool, s cudalike.Status) {
	for i := len(p.Dst) - 1; i >= 0 && s.OK(); i-- {
		s = c.do(on, "CopyBatch", p.Dst[i], p.Src[i], copyplan.Copy{Elem: int64(p.Size[i])})
	}
	return s.OK() && event != 0 && c.RecordEvent(event, on).OK(), s
}

func (c fakeContext) CopyBox(dst, src uintptr, b copyplan.Box, on uintptr) cudalike.Status {
	return c.do(on, "CopyBox", dst, src, copyplan.Copy{Elem: b.Row, Axes: []copyplan.Axis{
		{N: b.Slices, Dst: b.DstSlicePitch, Src: b.SrcSlicePitch}, {N: b.Rows, Dst: b.DstRowPitch, Src: b.SrcRowPitch},
	}})
}

func (c fakeContext) CopyPeer(p cudalike.PeerCopy, n int64, on uintptr) cudalike.Status {
	_, s := c.Copy(p.Dst, p.Src, n, on, 0)
	return s
}

func (c fakeContext) CopyPeerBox(p cudalike.PeerCopy, b copyplan.Box, on uintptr) cudalike.Status {
	return c.CopyBox(p.Dst, p.Src, b, on)
}

func (c fakeContext) EnablePeer(cudalike.ContextID) (s cudalike.Status) { return s }

// LoadModule runs only images that begin with "gather".
func (c fakeContext) LoadModule(image string) (module uintptr, s cudalike.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images = append(c.images, image)
	if !strings.HasPrefix(image, "gather") {
		return 0, cudalike.Status{Call: "LoadModule", Code: 4, Kind: cudalike.WrongImage}
	}
	c.loaded++
	return 1, s
}

func (c fakeContext) UnloadModule(uintptr) (s cudalike.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded--
	return s
}

// converter is the kernel for conversions.
const converter = 1000

// Function returns the size of the kernel's words, or converter, by which Launch knows the kernel.
func (c fakeContext) Function(_ uintptr, name string) (uintptr, cudalike.Status) {
	if name == gpuconvert.Kernel {
		return converter, cudalike.Status{}
	}
	size, _, _ := strings.Cut(strings.TrimPrefix(name, "gather"), "_")
	word, err := strconv.Atoi(size)
	return uintptr(word), result("Function", err)
}

// Launch does what the kernel does: see gather.cu and convert.cu.
func (c fakeContext) Launch(word uintptr, _ [3]uint32, _ uint32, dst, src uintptr, constants unsafe.Pointer, on uintptr) cudalike.Status {
	if word == converter {
		k := *(*gpuconvert.Constants)(constants)
		return result("Launch", c.stream(on).Enqueue(func() error { return gpuconverttest.Run(k, dst, src) }))
	}
	k := *(*gpucopy.Constants)(constants)
	w := int64(word)
	x := copyplan.Copy{Elem: w, Dst: int64(k.DstFirst) * w, Src: int64(k.SrcFirst) * w}
	for i := range k.N {
		x.Axes = append(x.Axes, copyplan.Axis{N: int64(k.N[i]), Dst: int64(k.DstStep[i]) * w, Src: int64(k.SrcStep[i]) * w})
	}
	slices.Reverse(x.Axes)
	return c.do(on, "Launch", dst, src, x)
}

func (c fakeContext) LaunchHostFunc(on uintptr, f func()) cudalike.Status {
	n := c.hostFuncs.Add(c.ID(), f)
	return result("LaunchHostFunc", c.stream(on).Enqueue(func() error { c.hostFuncs.Run(n); return nil }))
}

func (c fakeContext) RunsHostFunc() bool { return c.hostFuncs.Running(c.ID()) }

func (c fakeContext) DropHostFuncs() { c.hostFuncs.DropAll(c.ID()) }

func result(call string, err error) cudalike.Status {
	if err != nil {
		return cudalike.Status{Call: call, Code: 3, Kind: cudalike.DeviceLost}
	}
	return cudalike.Status{}
}
