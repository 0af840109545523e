package backendtest

import (
	"errors"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

var viewCases = []Case{
	{
		Name:  "host-view/host-visible",
		Rule:  "core.AllocOptions.HostVisible: memory that is allocated with it can be viewed, whatever its size; a view of other memory succeeds, or fails with ErrNotSupported",
		Needs: core.CapHostView,
		run:   caseHostVisible,
	},
	{
		Name:  "host-view/unsupported",
		Rule:  "core.AllocOptions.HostVisible: a device that cannot show memory to the host fails with ErrNotSupported",
		Lacks: core.CapHostView | core.CapHostMemory,
		run:   caseHostVisibleUnsupported,
	},
	{
		Name:  "host-view/no-copy",
		Rule:  "core.HostViewer: the result is the memory of b, of the same Size, and lies at b's Memory.Host; what the host wrote is seen by work enqueued later, and the work's writes by the host when it is done",
		Needs: core.CapHostView,
		run:   caseHostView,
	},
	{
		Name:  "host-view/reference",
		Rule:  "core.HostViewer: b is kept alive by a reference until the result is freed",
		Needs: core.CapHostView,
		run:   caseHostViewReference,
	},
	{
		Name:  "host-view/refused",
		Rule:  "core.HostViewer.HostView: a closed buffer fails with ErrClosed, a nil one with ErrInvalid",
		Needs: core.CapHostView,
		run:   caseHostViewRefused,
	},
	{
		Name:  "host-view/checked",
		Rule:  "backendkit.ShareChecker.CanView: refuses memory only if HostView does, with the same error",
		Needs: core.CapHostView,
		run:   caseHostViewChecked,
	},
	{
		Name:  "host-view/order",
		Rule:  "core.Buffer.OrderWith: device memory and its view share one order; work on one waits for work on the other",
		Needs: core.CapHostView | core.CapAsync,
		run:   caseHostViewOrder,
	},
}

// visible allocates memory that the host can see, with the contents of p.
func (e *env) visible(p []byte) *core.Tensor {
	e.Helper()
	t := e.keep(core.Empty(e.ctx, e.dev, core.TypeUint8, []int64{int64(len(p))}, core.AllocOptions{HostVisible: true}))
	e.write(t, p)
	return t
}

// viewed is memory of the device as host memory, with the bytes that the host sees.
func (e *env) viewed(t *core.Tensor) (*core.Tensor, []byte) {
	e.Helper()
	b, err := t.Buffer()
	e.check(err, "Buffer")
	m, err := as[core.HostViewer](e).HostView(e.ctx, b)
	e.check(err, "HostView of %v", t)
	if m.ID != core.CPU || m.Device != nil || m.Size != b.Memory().Size {
		e.Errorf("the view has %d bytes on %v, device %v; want %d on %v without a device", m.Size, m.ID, m.Device, b.Memory().Size, core.CPU)
	}
	if m.Size > 0 && b.Memory().Host != m.Handle+uintptr(m.Offset) {
		e.Errorf("the view lies at %#x, and Memory.Host of what is viewed is %#x", m.Handle+uintptr(m.Offset), b.Memory().Host)
	}
	host := e.derived(m, b)
	return host, hostView(e, host)
}

func caseHostVisible(e *env) {
	for _, size := range []int64{1, 255, 4096, 5000, 1<<20 + 1} {
		content := e.pattern(size)
		view, seen := e.viewed(e.visible(content))
		if string(seen) != string(content) {
			e.Errorf("the host's view of %d bytes: %s", size, difference(seen, content))
		}
		_ = view.Close()
	}
	b, err := e.upload(e.pattern(100)).Buffer()
	e.check(err, "Buffer")
	m, err := as[core.HostViewer](e).HostView(e.ctx, b)
	if err == nil {
		m.Free()
	} else {
		e.wantError(err, core.ErrNotSupported, "HostView of plain memory")
	}
	if exporter, ok := core.As[core.MemoryExporter](e.dev); ok {
		e.wantExportsVisible(exporter.ExportTypes())
	}
}

func caseHostViewChecked(e *env) {
	checker, ok := e.dev.(backendkit.ShareChecker)
	if !ok {
		return
	}
	content := e.pattern(1000)
	for _, t := range []*core.Tensor{e.upload(content), e.visible(content)} {
		b, err := t.Buffer()
		e.check(err, "Buffer")
		m, err := as[core.HostViewer](e).HostView(e.ctx, b)
		if err == nil {
			m.Free()
		}
		e.wantChecked(checker.CanView(b.Memory()), err, "CanView", "HostView")
	}
}

// wantChecked compares the answer of a [backendkit.ShareChecker] with the error of the call.
func (e *env) wantChecked(can, err error, check, call string) {
	e.Helper()
	if can != nil && (err == nil || can.Error() != err.Error()) {
		e.Errorf("%s says %v, and the error of %s is %v", check, can, call, err)
	}
}

// wantExportsVisible checks memory that is allocated for export and for the host to see, where a device
// offers both.
func (e *env) wantExportsVisible(types []core.HandleType) {
	e.Helper()
	for _, h := range types {
		m, err := e.dev.Alloc(e.ctx, 1000, core.AllocOptions{Export: h, HostVisible: true})
		if err != nil {
			e.wantError(err, core.ErrNotSupported, "Alloc of memory that the host can see, for export as %v", h)
			continue
		}
		t := e.wrapBytes(m)
		_ = e.export(t, h).Close()
		content := e.pattern(1000)
		e.write(t, content)
		if _, seen := e.viewed(t); string(seen) != string(content) {
			e.Errorf("the host's view of memory for export as %v: %s", h, difference(seen, content))
		}
	}
}

func caseHostVisibleUnsupported(e *env) {
	m, err := e.dev.Alloc(e.ctx, 100, core.AllocOptions{HostVisible: true})
	e.wantError(err, core.ErrNotSupported, "Alloc of memory that the host can see")
	if err == nil {
		m.Free()
	}
}

func caseHostView(e *env) {
	e.visible(e.pattern(5000)) // a neighbour, which the view is not of
	content := e.pattern(5000)
	t := e.visible(content)
	view, host := e.viewed(t)
	if string(host) != string(content) {
		e.Errorf("the view: %s", difference(host, content))
	}
	for range 2 { // what one side has seen it must not keep
		copy(host, e.pattern(5000))
		e.wantBytes(t, host, "the memory, after the host wrote to the view")
		next := e.pattern(5000)
		s := e.stream()
		e.copy(s, t, e.hostBytes(next))
		e.check(t.WaitReady(e.ctx), "WaitReady")
		if string(host) != string(next) {
			e.Errorf("the view, after a write by the device: %s", difference(host, next))
		}
	}
	content = append([]byte(nil), host...)
	_ = view.Close()
	e.wantBytes(t, content, "the memory, after the view was closed")
}

func caseHostViewReference(e *env) {
	content := e.pattern(5000)
	t := e.visible(content)
	_, host := e.viewed(t)
	_ = t.Close()
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close of the device with the view open")
	e.visible(e.pattern(5000)) // would overwrite memory that is used again too early
	if string(host) != string(content) {
		e.Errorf("the view, after the memory's tensor was closed: %s", difference(host, content))
	}
}

func caseHostViewRefused(e *env) {
	viewer := as[core.HostViewer](e)
	t := e.visible(e.pattern(100))
	closed, err := t.Buffer()
	e.check(err, "Buffer")
	_ = t.Close()
	for _, bad := range []struct {
		what     string
		b        *core.Buffer
		sentinel error
	}{{"a closed buffer", closed, core.ErrClosed}, {"no buffer", nil, core.ErrInvalid}} {
		m, err := viewer.HostView(e.ctx, bad.b)
		e.wantError(err, bad.sentinel, "HostView of %s", bad.what)
		if err == nil {
			m.Free()
		}
	}
}

func caseHostViewOrder(e *env) {
	t := e.visible(e.pattern(5000))
	b, err := t.Buffer()
	e.check(err, "Buffer")
	m, err := as[core.HostViewer](e).HostView(e.ctx, b)
	e.check(err, "HostView")
	e.wantOneOrder(t, e.derived(m, b))
}

// derived makes a uint8 tensor of what is the memory of origin under another API.
func (e *env) derived(m core.Memory, origin *core.Buffer) *core.Tensor {
	e.Helper()
	t := e.wrapBytes(m)
	b, err := t.Buffer()
	e.check(err, "Buffer")
	b.OrderWith(origin, 0)
	return t
}

// wantOneOrder checks that copies wait for each other if they reach the same memory through the device and
// through the host.
func (e *env) wantOneOrder(device, host *core.Tensor) {
	e.Helper()
	n := device.NumElements()
	for _, side := range []struct {
		name        string
		write, read *core.Tensor
	}{{"the device", device, host}, {"the host", host, device}} {
		first, second := e.stream(), e.stream()
		content, next := e.pattern(n), e.pattern(n)
		source, update := e.upload(content), e.upload(next)
		middle, out := e.bytes(n), e.bytes(n)
		release, _ := e.hold(first)
		e.copy(first, side.write, source)
		err := e.whileHeld(release, func() error {
			return errors.Join(e.dev.Copy(e.ctx, second, middle, side.read), second.Synchronize(e.ctx))
		})
		e.check(err, "Copy of what is written through %s", side.name)
		e.wantBytes(middle, content, "what a reader got of a write through %s", side.name)

		release, _ = e.hold(first)
		e.copy(first, out, side.read)
		err = e.whileHeld(release, func() error {
			return errors.Join(e.dev.Copy(e.ctx, second, side.write, update), second.Synchronize(e.ctx))
		})
		e.check(err, "Copy through %s over what is being read", side.name)
		e.synchronize(first)
		e.wantBytes(out, content, "what the reader got before a write through %s", side.name)
	}
}
