//go:build opencl && linux && cgo

package opencl_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// other is another library: a context of its own with a queue.
type other struct {
	testing.TB
	device  driver.Device
	context driver.Context
	queue   driver.Queue
}

// ok ends the test where a call of the other library failed.
func (o *other) ok(s driver.Status) {
	o.Helper()
	if s != driver.Success {
		o.Fatal(s)
	}
}

func newOther(tb testing.TB) *other {
	tb.Helper()
	open(tb).Close()
	o := &other{TB: tb}
	platforms, s := driver.Platforms()
	o.ok(s)
	devices, s := driver.Devices(platforms[0])
	o.ok(s)
	o.device = devices[0]
	o.context, s = driver.CreateContext(platforms[0], o.device)
	o.ok(s)
	tb.Cleanup(func() { driver.ReleaseContext(o.context) })
	o.queue, s = driver.CreateQueue(o.context, o.device, 0)
	o.ok(s)
	tb.Cleanup(func() { driver.ReleaseQueue(o.queue) })
	return o
}

// buffer makes a cl_mem.
func (o *other) buffer(size int64) driver.Mem {
	o.Helper()
	m, s := driver.CreateBuffer(o.context, size)
	o.ok(s)
	o.Cleanup(func() { driver.ReleaseMem(m) })
	return m
}

// wrap opens a device over the context.
func (o *other) wrap() core.Device {
	o.Helper()
	d, err := opencl.Wrap(uintptr(o.context), uintptr(o.device))
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() {
		if err := d.Close(); err != nil {
			o.Error(err)
		}
	})
	return d
}

func (o *other) references(m driver.Mem) uint64 {
	o.Helper()
	n, s := driver.Number(m, driver.MemReferences)
	o.ok(s)
	return n & math.MaxUint32
}

func want(tb testing.TB, err, sentinel error, what string) {
	tb.Helper()
	var typed *core.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &typed) || typed.Backend != "opencl" || typed.Call == "" {
		tb.Errorf("%s: error %v, want %q of opencl with its call", what, err, sentinel)
	}
}

// upload makes a tensor of the device.
func upload(tb testing.TB, d core.Device, content []byte) *core.Tensor {
	tb.Helper()
	t := row(tb, d, int64(len(content)), core.AllocOptions{})
	put(tb, d, t, content)
	return t
}

func TestABufferOfAnotherLibraryIsRetainedUntilItIsFreed(t *testing.T) {
	o := newOther(t)
	d := o.wrap()
	mem := o.buffer(1000)
	before := o.references(mem)
	freed := 0
	m, err := d.(core.PointerImporter).ImportPointer(uintptr(mem), 600, core.FreeFunc(func() { freed++ }))
	if err != nil {
		t.Fatal(err)
	}
	if n := o.references(mem); n != before+1 {
		t.Errorf("%d references while it is imported, want %d", n, before+1)
	}
	tensor, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{600}})
	if err != nil {
		t.Fatal(err)
	}
	content := pattern(600, 1)
	put(t, d, tensor, content)
	theirs := make([]byte, 600)
	o.ok(driver.Read(o.queue, mem, 0, 600, uintptr(unsafe.Pointer(&theirs[0]))))
	o.ok(driver.Finish(o.queue))
	if string(theirs) != string(content) {
		t.Error("the other library reads something else in its buffer")
	}
	tensor.Close()
	// A driver may hold the buffer for a moment after the last command is done: PoCL does.
	for end := time.Now().Add(20 * time.Second); o.references(mem) != before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := o.references(mem); n != before || freed != 1 {
		t.Errorf("%d references after the import was freed, want %d; the owner was told %d times", n, before, freed)
	}
}

// Between a cl_mem that another library made over memory of the host and the host's own
// tensors on that memory, no command may copy directly.
func TestABufferOverMemoryOfTheHostIsCopiedToAndFromThatMemory(t *testing.T) {
	o := newOther(t)
	d := o.wrap()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := make([]byte, 1<<20)
	host := keep(t)(core.FromSlice(all))
	address, err := host.Address()
	if err != nil {
		t.Fatal(err)
	}
	mem, status := driver.CreateBufferOver(o.context, address, int64(len(all)))
	o.ok(status)
	defer driver.ReleaseMem(mem)
	m, err := d.(core.PointerImporter).ImportPointer(uintptr(mem), int64(len(all)), nil)
	if err != nil {
		t.Fatal(err)
	}
	device := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}}))
	b, err := device.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.(core.HostViewer).HostView(t.Context(), b); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "CL_MEM_USE_HOST_PTR") {
		t.Errorf("HostView: %v", err)
	}
	view := func(of *core.Tensor, spec core.Spec) *core.Tensor {
		b, err := of.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		spec.DType = core.TypeUint8
		return keep(t)(core.NewTensor(b, spec))
	}
	const half = 512 << 10
	for _, spec := range []core.Spec{
		{Shape: []int64{100}}, {Shape: []int64{200 << 10}}, {Shape: []int64{300, 700}, Strides: []int64{701, 1}}, {Shape: []int64{300, 700}, Strides: []int64{1, 300}},
	} {
		near := spec
		far := core.Spec{Shape: spec.Shape, Offset: half}
		for _, c := range []struct{ dst, src *core.Tensor }{
			{view(device, far), view(host, near)}, {view(host, near), view(device, far)},
			{view(device, near), view(host, far)}, {view(host, far), view(device, near)},
		} {
			for _, on := range []core.Stream{nil, s} {
				copy(all, pattern(len(all), uint64(c.dst.Offset()+c.dst.NumElements())))
				want := append([]byte(nil), all...)
				if err := coretest.CopyNaive(over(t, want, c.dst), over(t, want, c.src)); err != nil {
					t.Fatal(err)
				}
				if err := d.Copy(t.Context(), on, c.dst, c.src); err != nil {
					t.Fatal(err)
				}
				if err := c.dst.WaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(all, want) {
					t.Errorf("%v <- %v, stream %v: wrong bytes", c.dst, c.src, on != nil)
				}
			}
		}
	}
}

// over is a tensor like another in memory of the host.
func over(tb testing.TB, memory []byte, like *core.Tensor) *core.Tensor {
	tb.Helper()
	all := keep(tb)(core.FromSlice(memory))
	b, err := all.Buffer()
	if err != nil {
		tb.Fatal(err)
	}
	return keep(tb)(core.NewTensor(b, core.Spec{DType: like.DType(), Shape: like.Shape(), Strides: like.Layout().Strides(), Offset: like.Offset()}))
}

func TestWhatIsNoBufferOfTheContextIsRefused(t *testing.T) {
	o := newOther(t)
	d := o.wrap()
	importer := d.(core.PointerImporter)
	mem, foreignMem := o.buffer(1000), newOther(t).buffer(1000)
	local := make([]uintptr, 64)
	for name, bad := range map[string]struct {
		p    uintptr
		size int64
	}{
		"NULL":                           {0, 16},
		"an address that is not mapped":  {math.MaxUint - 15, 16},
		"memory of something else":       {uintptr(unsafe.Pointer(&local[0])), 16},
		"half a handle":                  {uintptr(mem) + 1, 16},
		"a size beyond the buffer":       {uintptr(mem), 1001},
		"a negative size":                {uintptr(mem), -1},
		"a buffer of another cl_context": {uintptr(foreignMem), 16},
	} {
		m, err := importer.ImportPointer(bad.p, bad.size, core.FreeFunc(func() { t.Errorf("%s: the owner was told", name) }))
		want(t, err, core.ErrInvalid, name)
		if err == nil {
			m.Free()
		}
	}
	if n := o.references(mem); n != 1 {
		t.Errorf("%d references after imports that were refused, want 1", n)
	}
}

func TestAQueueOfAnotherLibrary(t *testing.T) {
	o := newOther(t)
	d := o.wrap()
	importer := d.(core.StreamImporter)
	s, err := importer.ImportStream(t.Context(), uintptr(o.queue))
	if err != nil {
		t.Fatal(err)
	}
	tensor := upload(t, d, make([]byte, 5000))
	content := pattern(5000, 1)
	host := keep(t)(core.FromSlice(content))
	if err := d.Copy(t.Context(), s, tensor, host); err != nil {
		t.Fatal(err)
	}
	_ = host.Close() // the copy holds it
	// The other library's command stands behind the copy, without a word between them.
	mem, offset, err := opencl.MemOf(tensor)
	if err != nil {
		t.Fatal(err)
	}
	theirs := make([]byte, 5000)
	o.ok(driver.Read(o.queue, driver.Mem(mem), offset, 5000, uintptr(unsafe.Pointer(&theirs[0]))))
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if string(theirs) != string(content) {
		t.Error("their command did not see the copy before it")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.ok(driver.Finish(o.queue)) // still theirs

	foreignMem := newOther(t)
	for name, bad := range map[string]uintptr{
		"NULL": 0, "a queue of another cl_context": uintptr(foreignMem.queue), "an address that is not mapped": 4096,
	} {
		_, err := importer.ImportStream(t.Context(), bad)
		want(t, err, core.ErrInvalid, name)
	}
}

func TestAnEventOfAnotherLibraryIsWaitedForOnTheDevice(t *testing.T) {
	o := newOther(t)
	d := o.wrap()
	userEvent, s := driver.CreateUserEvent(o.context)
	o.ok(s)
	defer driver.ReleaseEvent(userEvent)
	e, err := opencl.ImportEvent(d, uintptr(userEvent))
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.Wait(e); err != nil {
		t.Fatal(err)
	}
	tensor := upload(t, d, make([]byte, 100))
	content := pattern(100, 1)
	host := keep(t)(core.FromSlice(content))
	if err := d.Copy(t.Context(), q, tensor, host); err != nil {
		t.Fatal(err)
	}
	if done, _ := tensor.Ready().Done(); done {
		t.Error("the copy did not wait")
	}
	if done, _ := e.Done(); done {
		t.Error("the event is done too early")
	}
	o.ok(driver.CompleteUserEvent(userEvent))
	if err := errors.Join(e.Wait(t.Context()), tensor.WaitReady(t.Context()), q.Wait(e)); err != nil {
		t.Fatal(err)
	}
	if string(get(t, d, tensor)) != string(content) {
		t.Error("the copy left something else")
	}

	foreignMem := newOther(t)
	local := make([]uintptr, 64)
	theirs, s := driver.CreateUserEvent(foreignMem.context)
	o.ok(s)
	defer driver.ReleaseEvent(theirs)
	for name, bad := range map[string]uintptr{"NULL": 0, "an event of another cl_context": uintptr(theirs), "memory of something else": uintptr(unsafe.Pointer(&local[0]))} {
		_, err := opencl.ImportEvent(d, bad)
		want(t, err, core.ErrInvalid, name)
	}
}

func TestWrapRefusesOtherContexts(t *testing.T) {
	o := newOther(t)
	_, err := opencl.Wrap(0, uintptr(o.device))
	want(t, err, core.ErrInvalid, "no context")
	_, err = opencl.Wrap(uintptr(o.context), uintptr(o.queue))
	want(t, err, core.ErrDevice, "a queue for a device")
	_, err = opencl.Wrap(4096, uintptr(o.device))
	want(t, err, core.ErrInvalid, "an address that is not mapped for a context")
	d := o.wrap()
	h, err := opencl.HandlesOf(d)
	if err != nil || h.Context != uintptr(o.context) || h.Device != uintptr(o.device) || h.Platform == 0 {
		t.Errorf("HandlesOf: %+v, error %v", h, err)
	}
	_, err = opencl.HandlesOf(nil)
	want(t, err, core.ErrDevice, "no device")
}

func TestASubBufferIsTheSameElements(t *testing.T) {
	d := device(t)
	content := pattern(4096, 1)
	whole := upload(t, d, content)
	for name, c := range map[string]struct{ start, stop, step int64 }{
		"a range": {1024, 2048, 1}, "every third": {1024, 2000, 3}, "backwards": {2047, 1023, -1},
	} {
		part, err := whole.Slice(0, c.start, c.stop, c.step)
		if err != nil {
			t.Fatal(err)
		}
		sub, err := opencl.SubBuffer(part)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mem, offset, err := opencl.MemOf(sub)
		if err != nil {
			t.Fatal(err)
		}
		if outer, _, _ := opencl.MemOf(part); mem == outer || c.step > 0 && offset != 0 {
			t.Errorf("%s: cl_mem %#x with offset %d, of %#x", name, mem, offset, outer)
		}
		expected := string(get(t, d, part))
		part.Close()
		if string(get(t, d, sub)) != expected {
			t.Errorf("%s: other elements", name)
		}
		if err := d.Close(); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: Close of the device with a sub-buffer open: %v", name, err)
		}
		sub.Close()
	}
	_, err := opencl.SubBuffer(keep(t)(whole.Slice(0, 1, 100, 1)))
	want(t, err, core.ErrLayout, "an offset that is not aligned")
	host := keep(t)(core.FromSlice(content))
	_, err = opencl.SubBuffer(host)
	want(t, err, core.ErrDevice, "a tensor of the host")
	_, _, err = opencl.MemOf(nil)
	want(t, err, core.ErrInvalid, "no tensor")
}

// A tensor of DLPack has no size, and a kernel reads and writes where it is told to.
func TestATensorMustLieInItsBuffer(t *testing.T) {
	o := newOther(t)
	d := o.wrap()
	own := upload(t, d, make([]byte, 4096))
	handle, offset, err := opencl.MemOf(own)
	if err != nil || offset != 0 {
		t.Fatal(offset, err)
	}
	const n = 1 << 16
	empty := func(dt core.DType) *core.Tensor {
		return keep(t)(core.Empty(t.Context(), d, dt, []int64{n}, core.AllocOptions{}))
	}
	bytes, floats := empty(core.TypeUint8), empty(core.TypeFloat32)
	defer own.Close()
	defer bytes.Close()
	defer floats.Close()
	converter := d.(core.Converter)
	for name, mem := range map[string]uintptr{"another library's": uintptr(o.buffer(4096)), "the device's": handle} {
		foreign := func(n, stride int64) *core.Tensor {
			return keep(t)(core.Wrap(core.Memory{ID: d.ID(), Handle: mem, Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{n}, Strides: []int64{stride}}))
		}
		if got := get(t, d, foreign(4096, 1)); len(got) != 4096 {
			t.Errorf("%s: %d bytes, want all", name, len(got))
		}
		none := keep(t)(core.Wrap(core.Memory{ID: d.ID(), Handle: mem, Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{0}, Offset: n}))
		if err := d.Copy(t.Context(), nil, keep(t)(bytes.Slice(0, 0, 0, 1)), none); err != nil {
			t.Errorf("%s: no elements, behind the end: %v", name, err)
		}
		for what, bad := range map[string]*core.Tensor{"contiguous": foreign(n, 1), "strided": foreign(n, 1<<12)} {
			want(t, d.Copy(t.Context(), nil, bytes, bad), core.ErrLayout, name+", "+what+", read")
			want(t, d.Copy(t.Context(), nil, bad, bytes), core.ErrLayout, name+", "+what+", written")
			want(t, converter.ConvertOn(t.Context(), nil, floats, bad, core.Scaling{}), core.ErrLayout, name+", "+what+", converted")
		}
	}
}
