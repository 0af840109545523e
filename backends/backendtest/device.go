package backendtest

import (
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

var deviceCases = []Case{
	{
		Name: "device/properties",
		Rule: "core.Properties: ID is the device's; it has a name; TotalMemory is not negative; a feature that is not available has a reason",
		run:  caseProperties,
	},
	{
		Name: "device/capabilities",
		Rule: "core.Capabilities: a device that offers one declares the capability of the same name, and one that declares it offers the interface",
		run:  caseCapabilities,
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
		e.Errorf("ID %v is no device of dlpack.h", p.ID)
	}
	if p.Name == "" {
		e.Errorf("the device has no name")
	}
	if p.TotalMemory < 0 {
		e.Errorf("TotalMemory is %d", p.TotalMemory)
	}
	for _, f := range p.Features {
		if f.Name == "" || f.Available == (f.Reason != "") {
			e.Errorf("feature %+v: it has a name, and a reason only where it is not available", f)
		}
	}
}

// optional tells which capability stands for which interface.
var optional = []struct {
	capability core.Capabilities
	name       string
	offered    func(core.Device) bool
}{
	{core.CapImportPointer, "PointerImporter", is[core.PointerImporter]},
	{core.CapMapHost, "HostMapper", is[core.HostMapper]},
	{core.CapExportMemory, "MemoryExporter", is[core.MemoryExporter]},
	{core.CapImportMemory, "MemoryImporter", is[core.MemoryImporter]},
	{core.CapSemaphores, "SemaphoreCreator", is[core.SemaphoreCreator]},
	{core.CapExportSemaphores, "SemaphoreExporter", is[core.SemaphoreExporter]},
	{core.CapImportSemaphores, "SemaphoreImporter", is[core.SemaphoreImporter]},
	{core.CapPeer, "PeerCopier", is[core.PeerCopier]},
	{core.CapPool, "PoolController", is[core.PoolController]},
}

func is[I any](d core.Device) bool {
	_, ok := d.(I)
	return ok
}

func caseCapabilities(e *env) {
	for _, o := range optional {
		declared := e.props.Capabilities.Has(o.capability)
		if offered := o.offered(e.dev); offered != declared {
			e.Errorf("capability %v is declared: %v, but %s is offered: %v", o.capability, declared, o.name, offered)
		}
	}
}

// as returns an optional interface that the device declares.
func as[I any](e *env) I {
	e.Helper()
	i, ok := e.dev.(I)
	if !ok {
		e.Fatalf("the device declares %v, but %T does not implement %T", e.props.Capabilities, e.dev, *new(I))
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
	s := e.stream()
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close with a stream open")
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
	address := e.address(t)
	// The address is not Go's, or pinned: read as a pointer, it needs no conversion that vet refuses.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), t.NumElements())
}
