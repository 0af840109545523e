package backendtest

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

var deviceCases = []Case{
	{
		Name: "device/properties",
		Rule: "core.Properties: ID is the device's; it has a name; sizes and counts are not negative, FreeMemory is at most TotalMemory; a feature that is not available has a reason",
		run:  caseProperties,
	},
	{
		Name: "device/capabilities",
		Rule: "core.As: a device that declares a capability implements its interface; a device whose memory has handles instead of addresses does not declare CapHostMemory",
		run:  caseCapabilities,
	},
	{
		Name: "device/undeclared-capabilities",
		Rule: "core.ErrNotSupported: methods of an optional interface whose capability a device does not declare fail with it",
		run:  caseUndeclared,
	},
	{
		Name: "device/close-refused-while-memory-is-open",
		Rule: "core.Device.Close: fails with ErrInvalid while memory of it is open, and changes nothing then",
		run:  caseCloseWithMemory,
	},
	{
		Name: "device/close-refused-while-a-stream-is-open",
		Rule: "core.Device.Close: fails with ErrInvalid while streams of it are open, and changes nothing then",
		run:  caseCloseWithStream,
	},
	{
		Name: "device/close-twice",
		Rule: "core.Device.Close: a second Close does nothing",
		run:  caseCloseTwice,
	},
	{
		Name: "device/close-hooks",
		Rule: "backendkit.CloseNotifier: Close calls each hook before it checks what is open, so memory that a hook frees does not count as open",
		run:  caseCloseHooks,
	},
	{
		Name: "device/cancelled-close-hook",
		Rule: "backendkit.CloseNotifier: a cancelled hook is not called; all others are, even by a Close that fails",
		run:  caseCancelledHook,
	},
	{
		Name: "device/use-after-close",
		Rule: "core.ErrClosed: Alloc, NewStream and Copy of a closed device fail with it",
		run:  caseUseAfterClose,
	},
	{
		Name:  "device/host-memory",
		Rule:  "core.CapHostMemory: the host can use the address of device memory",
		Needs: core.CapHostMemory,
		run:   caseHostMemory,
	},
}

func caseProperties(e *env) {
	p := e.props
	if p.ID != e.dev.ID() {
		e.Errorf("Properties.ID is %v, ID() is %v", p.ID, e.dev.ID())
	}
	if !p.ID.Type.Known() || p.ID.Index < 0 {
		e.Errorf("the type of ID %v is not in dlpack.h", p.ID)
	}
	if p.Name == "" {
		e.Errorf("the device has no name")
	}
	if p.TotalMemory < 0 || p.FreeMemory < 0 || p.TotalMemory > 0 && p.FreeMemory > p.TotalMemory {
		e.Errorf("TotalMemory is %d, FreeMemory %d", p.TotalMemory, p.FreeMemory)
	}
	if p.ComputeUnits < 0 || p.Queues < 0 {
		e.Errorf("ComputeUnits are %d, Queues %d", p.ComputeUnits, p.Queues)
	}
	for _, f := range p.Features {
		if f.Name == "" || f.Available == (f.Reason != "") {
			e.Errorf("feature %+v must have a name, and a reason only if it is not available", f)
		}
	}
}

func caseCapabilities(e *env) {
	if err := backendkit.CheckCapabilities(e.dev); err != nil {
		e.Errorf("%v", err)
	}
	if e.props.ID.Type.OpaqueHandle() && e.props.Capabilities.Has(core.CapHostMemory) {
		e.Errorf("capability %v is declared, but memory of type %v has no address", core.CapHostMemory, e.props.ID.Type)
	}
}

// caseUndeclared calls what the device implements without declaring it.
func caseUndeclared(e *env) {
	bytes := e.bytes(4096)
	own, err := bytes.Buffer()
	e.check(err, "Buffer")
	hostBytes := e.hostBytes(e.pattern(1 << 16))
	host, err := hostBytes.Buffer()
	e.check(err, "Buffer")

	undeclared(e, "ImportPointer", func(d core.PointerImporter) error {
		m, err := d.ImportPointer(own.Memory().Handle, 16, nil)
		m.Free()
		return err
	})
	undeclared(e, "MapHost", func(d core.HostMapper) error {
		m, err := d.MapHost(e.ctx, host)
		m.Free()
		return err
	})
	undeclared(e, "CanMap", func(d core.HostMapper) error { return d.CanMap(host.Memory()) })
	undeclared(e, "HostView", func(d core.HostViewer) error {
		m, err := d.HostView(e.ctx, own)
		m.Free()
		return err
	})
	undeclared(e, "ImportStream", func(d core.StreamImporter) error {
		_, err := d.ImportStream(e.ctx, 1)
		return err
	})
	undeclared(e, "ExportMemory", func(d core.MemoryExporter) error {
		e.wantNoTypes("ExportTypes", d.ExportTypes())
		_, err := d.ExportMemory(own, core.HandleOpaqueFD)
		return err
	})
	undeclared(e, "EndExport", func(d core.MemoryExporter) error { return d.EndExport(own) })
	undeclared(e, "ImportMemory", func(d core.MemoryImporter) error {
		e.wantNoTypes("ImportTypes", d.ImportTypes())
		m, err := d.ImportMemory(e.ctx, core.ExternalMemory{})
		m.Free()
		return err
	})
	undeclared(e, "NewSemaphore", func(d core.SemaphoreCreator) error {
		_, err := d.NewSemaphore(e.ctx, 0)
		return err
	})
	undeclared(e, "ExportSemaphore", func(d core.SemaphoreExporter) error {
		e.wantNoTypes("SemaphoreExportTypes", d.SemaphoreExportTypes())
		_, err := d.ExportSemaphore(nil, core.HandleOpaqueFD)
		return err
	})
	undeclared(e, "ImportSemaphore", func(d core.SemaphoreImporter) error {
		e.wantNoTypes("SemaphoreImportTypes", d.SemaphoreImportTypes())
		_, err := d.ImportSemaphore(e.ctx, core.ExternalSemaphore{})
		return err
	})
	undeclared(e, "NewIPCEvent", func(d core.IPCEventCreator) error {
		_, err := d.NewIPCEvent(e.ctx)
		return err
	})
	undeclared(e, "OpenIPCEvent", func(d core.IPCEventCreator) error {
		_, err := d.OpenIPCEvent(e.ctx, core.ExternalEvent{})
		return err
	})
	undeclared(e, "CanPeer", func(d core.PeerCopier) error { return d.CanPeer(e.dev) })
}

// undeclared calls f with the device as the interface I, if the device implements I and does not declare the
// capability.
func undeclared[I any](e *env, call string, f func(I) error) {
	e.Helper()
	i, ok := e.dev.(I)
	if ok && !e.props.Capabilities.Has(backendkit.CapabilityOf[I]()) {
		e.wantError(f(i), core.ErrNotSupported, "%s without the capability %v", call, backendkit.CapabilityOf[I]())
	}
}

func (e *env) wantNoTypes(call string, types []core.HandleType) {
	e.Helper()
	if len(types) > 0 {
		e.Errorf("%s is %v, without the capability", call, types)
	}
}

// as returns an optional interface that the device declares.
func as[I any](e *env) I {
	e.Helper()
	i, ok := core.As[I](e.dev)
	if !ok {
		e.Fatalf("the device declares %v, but %T does not implement %T", e.props.Capabilities, e.dev, (*I)(nil))
	}
	return i
}

func caseCloseWithMemory(e *env) {
	content := e.pattern(1000)
	t := e.upload(content)
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close with memory open")
	e.wantBytes(t, content, "memory after a Close that was refused")
	e.upload(content)
}

func caseCloseWithStream(e *env) {
	s, other := e.stream(), e.stream()
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close with a stream open")
	for range 2 {
		e.check(other.Close(), "Close of a stream")
	}
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close with a stream open, after another one was closed twice")
	content := e.pattern(1000)
	t := e.bytes(1000)
	e.copy(s, t, e.hostBytes(content))
	e.synchronize(s)
	e.wantBytes(t, content, "work after a Close that was refused")
	e.stream()
}

func caseCloseTwice(e *env) {
	for i := range 3 {
		if err := e.dev.Close(); err != nil {
			e.Errorf("Close number %d: %v", i+1, err)
		}
	}
}

// beforeClose registers a hook that counts its calls and then runs f.
func (e *env) beforeClose(f func()) (calls *int, cancel func()) {
	e.Helper()
	notifier, ok := e.dev.(backendkit.CloseNotifier)
	if !ok {
		e.Fatalf("%T is not a backendkit.CloseNotifier: embed backendkit.CloseHooks, and begin Close with RunCloseHooks", e.dev)
	}
	calls = new(int)
	return calls, notifier.BeforeClose(func() { *calls++; f() })
}

func caseCloseHooks(e *env) {
	cached := e.upload(e.pattern(1000))
	calls, _ := e.beforeClose(func() { _ = cached.Close() })
	e.check(e.dev.Close(), "Close with memory open that a hook frees")
	if *calls != 1 {
		e.Errorf("the hook was called %d times, want once", *calls)
	}
}

func caseCancelledHook(e *env) {
	t := e.upload(e.pattern(1000))
	stays, cancelStays := e.beforeClose(func() {})
	gone, cancel := e.beforeClose(func() { _ = t.Close() })
	cancel()
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close with memory open whose hook was cancelled")
	if *gone != 0 || *stays != 1 {
		e.Errorf("the hook that was cancelled was called %d times, the other %d; want never and once", *gone, *stays)
	}
	cancel()
	cancelStays()
}

func caseUseAfterClose(e *env) {
	e.check(e.dev.Close(), "Close")
	m, err := e.dev.Alloc(e.ctx, 16, core.AllocOptions{})
	e.wantError(err, core.ErrClosed, "Alloc")
	if err == nil {
		m.Free()
	}
	s, err := e.dev.NewStream(e.ctx)
	e.wantError(err, core.ErrClosed, "NewStream")
	if err == nil {
		_ = s.Close()
	}
	dst, src := e.hostBytes(make([]byte, 4)), e.hostBytes(make([]byte, 4))
	e.wantError(e.dev.Copy(e.ctx, nil, dst, src), core.ErrClosed, "Copy")
	if e.dev.ID() != e.props.ID {
		e.Errorf("ID() of the closed device is %v, it was %v", e.dev.ID(), e.props.ID)
	}
}

func caseHostMemory(e *env) {
	content := e.pattern(100)
	t := e.upload(content)
	host := hostView(e, t)
	if got := string(host); got != string(content) {
		e.Errorf("the host reads something else at the address: %s", difference([]byte(got), content))
	}
	next := e.pattern(100)
	copy(host, next)
	e.wantBytes(t, next, "after the host wrote to the address")
}

// hostView is the memory of a uint8 tensor whose address the host can use.
func hostView(e *env, t *core.Tensor) []byte {
	e.Helper()
	return bytesAt(e.address(t), t.NumElements())
}

// bytesAt is memory of the host at an address.
func bytesAt(address uintptr, size int64) []byte {
	// The address is not Go's, or pinned: read as a pointer, it needs no conversion that vet refuses.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), size)
}
