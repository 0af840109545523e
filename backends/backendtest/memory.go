package backendtest

import (
	"os"
	"slices"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

var memoryCases = []Case{
	{
		Name:  "export-memory/types",
		Rule:  "core.MemoryExporter.ExportTypes: Alloc can be asked for each of them, and for no other",
		Needs: core.CapExportMemory,
		run:   caseExportTypes,
	},
	{
		Name:  "export-memory/checked",
		Rule:  "backendkit.ShareChecker.CanExport: refuses memory only if ExportMemory does, with the same error",
		Needs: core.CapExportMemory,
		run:   caseExportChecked,
	},
	{
		Name:  "export-memory/identity",
		Rule:  "core.ExternalMemory: has the UUIDs of the device's Properties, and the range of the buffer in the whole allocation",
		Needs: core.CapExportMemory,
		run:   caseExportIdentity,
	},
	{
		Name:  "export-memory/descriptor",
		Rule:  "core.MemoryExporter.ExportMemory: the caller owns a handle of its own; closing it closes the descriptor and nothing else, and no other stays open; a dma-buf has at least Size bytes",
		Needs: core.CapExportMemory,
		run:   caseExportDescriptor,
	},
	{
		Name:  "export-memory/same-memory",
		Rule:  "core.MemoryImporter: an import is the exported memory, and so is a second one; each side sees the other's writes",
		Needs: core.CapExportMemory | core.CapImportMemory,
		run:   caseExportSame,
	},
	{
		Name:  "export-memory/part",
		Rule:  "core.ExternalMemory.Offset: an import is the Length bytes from Offset on, wherever these lie in the allocation",
		Needs: core.CapExportMemory | core.CapImportMemory,
		run:   caseExportPart,
	},
	{
		Name:  "export-memory/outlives-the-buffer",
		Rule:  "core.MemoryExporter.ExportMemory: the memory outlives the buffer as long as a handle or an import is open",
		Needs: core.CapExportMemory | core.CapImportMemory,
		run:   caseExportOutlives,
	},
	{
		Name:  "export-memory/handle",
		Rule:  "core.MemoryImporter.ImportMemory: on success the handle is empty and the result closes the descriptor once; no other descriptor stays open",
		Needs: core.CapExportMemory | core.CapImportMemory,
		run:   caseExportHandle,
	},
	{
		Name:  "export-memory/message",
		Rule:  "core.ExternalMemory.MarshalWithFDs: what is exported can be sent, and what UnmarshalExternalMemory makes of the message can be imported",
		Needs: core.CapExportMemory | core.CapImportMemory,
		run:   caseExportMessage,
	},
	{
		Name:  "export-memory/end",
		Rule:  "core.MemoryExporter.EndExport: leaves the memory as it is, any number of times; fails with ErrInvalid for nil and for memory that was not allocated for export, with ErrClosed for a buffer that was freed",
		Needs: core.CapExportMemory,
		run:   caseEndExport,
	},
	{
		Name:  "export-memory/refused-import",
		Rule:  "core.MemoryImporter.ImportMemory: fails with ErrDevice for UUIDs of another device, with ErrNotSupported without a handle, with ErrClosed for an empty one; the handle stays the caller's",
		Needs: core.CapExportMemory | core.CapImportMemory,
		run:   caseImportRefused,
	},
	{
		Name:  "export-memory/plain-memory",
		Rule:  "core.MemoryExporter: only memory that was allocated with AllocOptions.Export can be exported",
		Needs: core.CapExportMemory,
		run:   caseExportPlain,
	},
	{
		Name:  "import-memory/types",
		Rule:  "core.MemoryImporter.ImportTypes: ImportMemory takes these, and fails with ErrNotSupported for any other",
		Needs: core.CapImportMemory,
		run:   caseImportTypes,
	},
}

// handleTypes is every handle type of core.
var handleTypes = []core.HandleType{
	core.HandleOpaqueFD, core.HandleDMABuf, core.HandleMemFD, core.HandleIPC, core.HandleOpaqueWin32, core.HandleMachPort, core.HandleBinaryFD,
}

func caseExportTypes(e *env) {
	exporter := as[core.MemoryExporter](e)
	types := exporter.ExportTypes()
	if len(types) == 0 {
		e.Errorf("the device declares %v, but exports no handle type", core.CapExportMemory)
	}
	for _, h := range handleTypes {
		m, err := e.dev.Alloc(e.ctx, 1000, core.AllocOptions{Export: h})
		if slices.Contains(types, h) {
			e.check(err, "Alloc for export as %v", h)
		} else {
			e.wantError(err, core.ErrNotSupported, "Alloc for export as %v", h)
		}
		if err == nil {
			m.Free()
		}
	}
}

// exportable allocates memory that can be exported as h.
func (e *env) exportable(content []byte, h core.HandleType) *core.Tensor {
	e.Helper()
	t := e.keep(core.Empty(e.ctx, e.dev, core.TypeUint8, []int64{int64(len(content))}, core.AllocOptions{Export: h}))
	e.write(t, content)
	return t
}

// export returns a handle of a tensor's memory, which the case owns.
func (e *env) export(t *core.Tensor, h core.HandleType) core.ExternalMemory {
	e.Helper()
	b, err := t.Buffer()
	e.check(err, "Buffer")
	m, err := as[core.MemoryExporter](e).ExportMemory(b, h)
	e.check(err, "ExportMemory as %v", h)
	return m
}

func caseExportChecked(e *env) {
	checker, ok := e.dev.(backendkit.ShareChecker)
	if !ok {
		return
	}
	exporter := as[core.MemoryExporter](e)
	types := exporter.ExportTypes()
	for _, made := range append([]core.HandleType{0}, types...) {
		b, err := e.exportable(e.pattern(1000), made).Buffer()
		e.check(err, "Buffer")
		for _, h := range types {
			m, err := exporter.ExportMemory(b, h)
			if err == nil {
				_ = m.Close()
				e.check(exporter.EndExport(b), "EndExport")
			}
			e.wantChecked(checker.CanExport(b.Memory(), h), err, "CanExport", "ExportMemory")
		}
	}
}

func caseExportIdentity(e *env) {
	for _, h := range as[core.MemoryExporter](e).ExportTypes() {
		for _, size := range []int64{1, 5000, 1 << 20} {
			m := e.export(e.exportable(e.pattern(size), h), h)
			_ = m.Close()
			if m.Handle.Type() != h || m.Length != size || m.Offset < 0 || m.Size < m.Offset+m.Length {
				e.Errorf("%d bytes exported as %v: %+v, want the bytes within the allocation", size, h, m)
			}
			if m.DeviceUUID != e.props.UUID || m.DriverUUID != e.props.DriverUUID {
				e.Errorf("exported as %v: UUIDs of device and driver are %v and %v, want %v and %v", h, m.DeviceUUID, m.DriverUUID, e.props.UUID, e.props.DriverUUID)
			}
		}
	}
}

func caseExportDescriptor(e *env) {
	for _, h := range as[core.MemoryExporter](e).ExportTypes() {
		content := e.pattern(5000)
		t := e.exportable(content, h)
		first, second := e.export(t, h), e.export(t, h)
		number, id, known := e.fileOf(first.Handle)
		other, _, _ := e.fileOf(second.Handle)
		if h == core.HandleDMABuf {
			if size, err := bytesOf(number); err != nil || size < first.Size {
				e.Errorf("the dma-buf has %d bytes, error %v: want at least Size, which is %d", size, err, first.Size)
			}
		}
		_ = first.Close()
		if known {
			if number == other {
				e.Errorf("two exports as %v have the same descriptor", h)
			} else if after, err := fileOf(number); err == nil && after == id {
				e.Errorf("exported as %v: descriptor %d is still open after its handle was closed", h, number)
			}
		}
		e.wantBytes(t, content, "the memory, after a handle of it was closed")
		_ = second.Close()
		if !known {
			continue
		}
		const rounds = 20 // many, since a driver may open a file for itself now and then
		open, err := descriptors()
		e.check(err, "counting descriptors")
		for range rounds {
			_ = e.export(t, h).Close()
		}
		if now, err := descriptors(); err != nil || now-open >= rounds {
			e.Errorf("%d exports as %v left %d descriptors open, error %v", rounds, h, now-open, err)
		}
	}
}

// eachExport runs f with exported memory of each handle type that the device can
// import as well. The handle is f's.
func (e *env) eachExport(f func(t *core.Tensor, content []byte, m core.ExternalMemory)) {
	e.Helper()
	importer := as[core.MemoryImporter](e)
	for _, h := range as[core.MemoryExporter](e).ExportTypes() {
		if !slices.Contains(importer.ImportTypes(), h) {
			continue
		}
		content := e.pattern(5000)
		t := e.exportable(content, h)
		f(t, content, e.export(t, h))
		_ = t.Close()
	}
}

// importMemory opens exported memory as a tensor, or closes the handle and ends the case.
func (e *env) importMemory(m core.ExternalMemory) *core.Tensor {
	e.Helper()
	defer m.Close()
	memory, err := as[core.MemoryImporter](e).ImportMemory(e.ctx, m)
	e.check(err, "ImportMemory of %v", m.Handle)
	if memory.Size != m.Length || memory.Device != e.dev {
		e.Errorf("imported %d bytes, want %d, with the device as its Device", memory.Size, m.Length)
	}
	return e.wrapBytes(memory)
}

func caseExportSame(e *env) {
	e.eachExport(func(t *core.Tensor, content []byte, m core.ExternalMemory) {
		imported := e.importMemory(m)
		e.wantBytes(imported, content, "the import")
		next := e.pattern(5000)
		e.write(imported, next)
		e.wantBytes(t, next, "the origin, after a write to the import")
		e.write(t, content)
		e.wantBytes(imported, content, "the import, after a write to the origin")
		second := e.importMemory(e.export(t, m.Handle.Type()))
		e.write(second, next)
		e.wantBytes(imported, next, "the first import, after a write to the second")
		_ = second.Close()
		e.write(imported, content)
		_ = imported.Close()
		e.wantBytes(t, content, "the origin, after the import was closed")
	})
}

func caseExportPart(e *env) {
	const skip = 512
	e.eachExport(func(t *core.Tensor, content []byte, m core.ExternalMemory) {
		m.Offset += skip
		m.Length -= skip
		imported := e.importMemory(m)
		e.wantBytes(imported, content[skip:], "the import of a part")
		next := e.pattern(m.Length)
		e.write(imported, next)
		copy(content[skip:], next)
		e.wantBytes(t, content, "the origin, after a write to the import of a part")
		_ = imported.Close()
	})
}

func caseExportOutlives(e *env) {
	e.eachExport(func(t *core.Tensor, content []byte, m core.ExternalMemory) {
		_ = t.Close()
		e.upload(e.pattern(5000)) // would overwrite memory that is used again too early
		imported := e.importMemory(m)
		e.wantBytes(imported, content, "the import, after the origin was closed")
		_ = imported.Close()
	})
}

func caseExportHandle(e *env) {
	e.eachExport(func(t *core.Tensor, _ []byte, m core.ExternalMemory) {
		h := m.Handle.Type()
		number, before, known := e.fileOf(m.Handle)
		imported, err := as[core.MemoryImporter](e).ImportMemory(e.ctx, m)
		e.wantEmpty(m.Handle, err)
		_ = e.wrapBytes(imported).Close()
		// The number may be another file's by now.
		if after, err := fileOf(number); known && err == nil && after == before {
			e.Errorf("descriptor %d is still open after the import was freed", number)
		}
		if !known {
			return
		}
		const rounds = 20 // many, since a driver may open a file for itself now and then
		open, err := descriptors()
		e.check(err, "counting descriptors")
		for range rounds {
			_ = e.importMemory(e.export(t, h)).Close()
		}
		if now, err := descriptors(); err != nil || now-open >= rounds {
			e.Errorf("%d exports and imports left %d descriptors open, error %v", rounds, now-open, err)
		}
	})
}

// fileOf identifies the file behind the descriptor of a handle. It is not known where the
// handle has none.
func (e *env) fileOf(h *core.Handle) (fd int, id fileID, known bool) {
	e.Helper()
	if !h.Type().IsFD() {
		return -1, id, false
	}
	number, err := h.Number()
	e.check(err, "the descriptor of %v", h)
	id, err = fileOf(int(number))
	e.check(err, "the descriptor of %v", h)
	return int(number), id, true
}

// wantEmpty proves that a handle is empty after an import whose error is err. It closes
// the handle.
func (e *env) wantEmpty(h *core.Handle, err error) {
	e.Helper()
	other, still := h.Duplicate()
	_ = other.Close()
	_ = h.Close()
	e.check(err, "the import of %v", h)
	e.wantError(still, core.ErrClosed, "Duplicate of a handle that was imported")
}

func caseExportMessage(e *env) {
	e.eachExport(func(_ *core.Tensor, content []byte, m core.ExternalMemory) {
		defer m.Close()
		data, fds, err := m.MarshalWithFDs()
		e.check(err, "MarshalWithFDs of %+v", m)
		if len(fds) > 0 { // the receiver has descriptors of its own
			other, err := m.Handle.Duplicate()
			e.check(err, "Duplicate of %v", m.Handle)
			number, err := other.Take()
			e.check(err, "Take of %v", m.Handle)
			fds[0] = int(number)
		}
		received, err := core.UnmarshalExternalMemory(data, fds)
		e.check(err, "UnmarshalExternalMemory of %+v", m)
		e.wantBytes(e.importMemory(received), content, "the import of what was sent")
	})
}

func caseEndExport(e *env) {
	exporter := as[core.MemoryExporter](e)
	plain, err := e.upload(e.pattern(100)).Buffer()
	e.check(err, "Buffer")
	e.wantError(exporter.EndExport(nil), core.ErrInvalid, "EndExport of nil")
	e.wantError(exporter.EndExport(plain), core.ErrInvalid, "EndExport of plain memory")
	for _, h := range exporter.ExportTypes() {
		content := e.pattern(5000)
		t := e.exportable(content, h)
		b, err := t.Buffer()
		e.check(err, "Buffer")
		for range 2 {
			_ = e.export(t, h).Close()
			e.check(exporter.EndExport(b), "EndExport of memory for export as %v", h)
			e.check(exporter.EndExport(b), "a second EndExport")
			e.wantBytes(t, content, "the memory, after EndExport")
		}
		_ = t.Close()
		e.wantError(exporter.EndExport(b), core.ErrClosed, "EndExport of a buffer that was freed")
	}
}

func caseImportRefused(e *env) {
	importer := as[core.MemoryImporter](e)
	e.eachExport(func(_ *core.Tensor, content []byte, m core.ExternalMemory) {
		refused := func(change func(*core.ExternalMemory), sentinel error, what string) {
			e.Helper()
			bad := m
			change(&bad)
			memory, err := importer.ImportMemory(e.ctx, bad)
			e.wantError(err, sentinel, "ImportMemory with %s", what)
			if err == nil {
				memory.Free()
			}
		}
		refused(func(m *core.ExternalMemory) { m.DeviceUUID[3] ^= 1 }, core.ErrDevice, "another device's UUID")
		h := m.Handle.Type()
		if m.DriverUUID != (core.UUID{}) || h == core.HandleMemFD { // CUDA reports no UUID of its driver
			refused(func(m *core.ExternalMemory) { m.DriverUUID[3] ^= 1 }, core.ErrDevice, "another driver's UUID")
		}
		refused(func(m *core.ExternalMemory) { m.Handle = nil }, core.ErrNotSupported, "no handle")
		refused(func(m *core.ExternalMemory) { m.Handle = e.emptied(m.Handle) }, core.ErrClosed, "an empty handle")
		refused(func(m *core.ExternalMemory) { m.Length = -1 }, core.ErrInvalid, "a negative length")
		refused(func(m *core.ExternalMemory) { m.Offset = m.Size }, core.ErrInvalid, "a range that leaves the allocation")
		if h == core.HandleMemFD { // of the others, only the driver knows the size
			refused(func(m *core.ExternalMemory) { m.Size += 1 << 40; m.Length += 1 << 40 }, core.ErrInvalid, "a descriptor that is smaller than it claims")
		}
		e.wantBytes(e.importMemory(m), content, "the import, after others were refused")
	})
}

// emptied returns an empty handle of the same type.
func (e *env) emptied(h *core.Handle) *core.Handle {
	e.Helper()
	d, err := h.Duplicate()
	e.check(err, "Duplicate of %v", h)
	e.check(d.Close(), "Close of %v", d)
	return d
}

func caseExportPlain(e *env) {
	exporter := as[core.MemoryExporter](e)
	b, err := e.upload(e.pattern(100)).Buffer()
	e.check(err, "Buffer")
	for _, h := range append(exporter.ExportTypes(), 9999) {
		m, err := exporter.ExportMemory(b, h)
		if err != nil {
			e.wantTyped(err, "ExportMemory of plain memory")
			continue
		}
		e.Errorf("memory that was not allocated for it was exported as %v", h)
		_ = m.Close()
	}
}

func caseImportTypes(e *env) {
	importer := as[core.MemoryImporter](e)
	types := importer.ImportTypes()
	if len(types) == 0 {
		e.Errorf("the device declares %v, but imports no handle type", core.CapImportMemory)
	}
	e.eachStranger(types, func(h *core.Handle) error {
		m, err := importer.ImportMemory(e.ctx, core.ExternalMemory{Handle: h, Size: 4096, Length: 4096, DeviceUUID: e.props.UUID, DriverUUID: e.props.DriverUUID})
		if err == nil {
			m.Free()
		}
		return err
	})
}

// eachStranger calls f with no handle, and with one of each type that is not among types
// and can be made here. f must fail with ErrNotSupported.
func (e *env) eachStranger(types []core.HandleType, f func(*core.Handle) error) {
	e.Helper()
	e.wantError(f(nil), core.ErrNotSupported, "the import of no handle")
	for _, t := range handleTypes {
		if slices.Contains(types, t) {
			continue // a handle of nothing may be anything to the driver
		}
		h := e.stranger(t)
		if h != nil {
			e.wantError(f(h), core.ErrNotSupported, "the import of %v", t)
		}
		_ = h.Close()
	}
}

// stranger returns a handle that stands for nothing, or nil where this system has none of its type.
func (e *env) stranger(t core.HandleType) *core.Handle {
	e.Helper()
	if t == core.HandleIPC {
		h, err := backendkit.NewIPCHandle(core.VendorIntel, make([]byte, 64))
		e.check(err, "NewIPCHandle")
		return h
	}
	f, err := os.Open(os.DevNull)
	e.check(err, "Open")
	defer f.Close()
	borrowed, err := backendkit.NewHandle(t, f.Fd())
	if err != nil {
		e.wantError(err, core.ErrNotSupported, "NewHandle of type %v", t)
		return nil
	}
	h, err := borrowed.Duplicate()
	e.check(err, "Duplicate")
	_, err = borrowed.Take() // which leaves it to the file
	e.check(err, "Take")
	return h
}
