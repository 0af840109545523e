package cudalike

import (
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// IPCUnit is what the size of an allocation for other processes is rounded up to. The driver makes several
// smaller allocations from one block, and a handle opens the whole block to the other process (CUDA C++
// Programming Guide, "Interprocess Communication").
const IPCUnit = 2 << 20

// ipcMemory is an allocation that other processes may open.
type ipcMemory struct {
	address  uintptr
	size     int64 // a multiple of IPCUnit
	exported bool  // another process may have it open: see [device.EndExport]
	shared   bool  // it is in ipcImports, by key
	key      ipcKey
}

// freeIPC frees an allocation. If this process has imported it too, the last user frees it.
func (d *device) freeIPC(m *ipcMemory) {
	if m.shared {
		d.closeIPC(m.key)
	} else {
		d.freeNow(m.address)
	}
}

// freeNow frees an allocation. It cannot return an error to the caller that released the memory; check marks the
// device as lost if it is.
func (d *device) freeNow(address uintptr) {
	_ = d.check(d.context.Free(address), "memory that other processes can open")
}

// ipcExports are the allocations of a device that other processes may open.
type ipcExports struct {
	mu   sync.Mutex
	all  map[uintptr]*ipcMemory // in use, by address
	kept []*ipcMemory           // released here, while other processes may have them open
}

// allocIPC allocates memory that can be exported as HandleIPC. size is at least 1.
func (d *device) allocIPC(size int64) (core.Memory, error) {
	m := &ipcMemory{size: (size + IPCUnit - 1) / IPCUnit * IPCUnit}
	err := d.allocOutsidePool(m.size, size, core.HandleIPC, func() (s Status) {
		m.address, s = d.context.Alloc(m.size)
		return s
	})
	if err != nil {
		return core.Memory{}, err
	}
	d.ipc.add(m)
	freed := false
	return d.handOutToDrain(m.address, size, func() {
		if freed = d.ipc.remove(m); freed {
			d.freeIPC(m)
		}
	}, func() {
		if freed {
			d.uncharge(m.size, size)
		}
	}), nil
}

func (e *ipcExports) add(m *ipcMemory) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all[m.address] = m
}

// remove removes an allocation, and reports whether it may be freed. "Calling cuMemFree on an exported
// memory region before calling cuIpcCloseMemHandle in the importing context will result
// in undefined behavior" (cuIpcOpenMemHandle).
func (e *ipcExports) remove(m *ipcMemory) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, m.address)
	if m.exported {
		e.kept = append(e.kept, m)
	}
	return !m.exported
}

// freeExportedIPC frees the allocations that other processes may still use. The device is being closed.
func (d *device) freeExportedIPC() {
	e := &d.ipc
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.kept {
		d.freeIPC(m)
	}
	e.kept = nil
}

// canExportIPC fails unless allocIPC allocated m.
func (d *device) canExportIPC(m core.Memory) error {
	d.ipc.mu.Lock()
	defer d.ipc.mu.Unlock()
	if d.ipc.all[m.Handle] == nil {
		return d.notForExport(core.HandleIPC)
	}
	return nil
}

// exportIPC returns the handle of m, which allocIPC allocated. The caller holds a reference to its buffer.
func (d *device) exportIPC(m core.Memory) (core.ExternalMemory, error) {
	d.ipc.mu.Lock()
	defer d.ipc.mu.Unlock()
	a := d.ipc.all[m.Handle]
	if a == nil {
		return core.ExternalMemory{}, d.notForExport(core.HandleIPC)
	}
	h, s := d.context.ExportIPC(a.address)
	if err := d.check(s, "the memory at %#x", a.address); err != nil {
		return core.ExternalMemory{}, err
	}
	handle, err := backendkit.NewIPCHandle(d.backend.Vendor, h[:])
	if err != nil {
		return core.ExternalMemory{}, err
	}
	a.exported = true
	if !a.shared {
		a.shared, a.key = true, ipcKey{d.context.ID(), h}
		d.shareIPC(a)
	}
	return core.ExternalMemory{
		Handle: handle, Size: a.size, Offset: m.Offset, Length: m.Size,
		DeviceUUID: d.Info.UUID,
	}, nil
}

// endExport records that no other process has the allocation at address open. It reports whether there is such
// an allocation.
func (e *ipcExports) endExport(address uintptr) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.all[address]
	if m != nil {
		m.exported = false
	}
	return m != nil
}

// importIPC maps an allocation of another process, or finds one of this process. m was checked, except that Size
// is compared here with the size that the driver knows.
func (d *device) importIPC(m core.ExternalMemory) (core.Memory, error) {
	h, err := d.ipcHandle("ImportMemory", m.Handle)
	if err != nil {
		return core.Memory{}, err
	}
	k := ipcKey{d.context.ID(), h}
	address, size, err := d.openIPC(k)
	if err != nil {
		return core.Memory{}, err
	}
	if size < m.Size {
		d.backend.waits.afterWaits(func() { d.closeIPC(k) }, func(bool) {})
		return core.Memory{}, d.Errorf(core.ErrInvalid, "ImportMemory", "Size is %d bytes, but the allocation of the handle has %d", m.Size, size)
	}
	_ = m.Close()
	return d.handOutToDrain(address+uintptr(m.Offset), m.Length, func() { d.closeIPC(k) }, func() {}), nil
}

// ipcHandle returns the payload of an IPC handle.
func (d *device) ipcHandle(call string, h *core.Handle) (raw IPCHandle, err error) {
	payload, err := h.Payload()
	if err != nil {
		return raw, d.importer().Refused(call, err)
	}
	if len(payload) != len(raw) {
		return raw, d.Errorf(core.ErrInvalid, call, "the handle has %d bytes, but handles of %s have %d", len(payload), d.backend.API, len(raw))
	}
	return IPCHandle(payload), nil
}

// ipcKey names an allocation and the context that it is mapped in.
type ipcKey struct {
	context ContextID
	handle  IPCHandle
}

// ipcMapping is an allocation that is open, being opened or being closed.
type ipcMapping struct {
	callers int // calls of ipcImports.with in progress; guarded by ipcImports.mu

	mu      sync.Mutex // held while the driver opens or closes the handle, which can be slow
	users   int
	address uintptr
	size    int64
	own     bool // this process allocated it; the allocating device is a user
}

// ipcImports has the imported allocations of this process. All opened devices of a context share one mapping:
// mapping is slow, and drivers before CUDA 11 refuse to map an allocation twice. The table also has what this
// process exported, since no driver opens a handle in the process that made it.
type ipcImports struct {
	mu   sync.Mutex
	open map[ipcKey]*ipcMapping
}

// with calls f with the mapping of k, for one goroutine at a time. If the mapping has no users then, with
// removes it.
func (x *ipcImports) with(k ipcKey, f func(*ipcMapping)) {
	x.mu.Lock()
	m := x.open[k]
	if m == nil {
		m = new(ipcMapping)
		x.open[k] = m
	}
	m.callers++
	x.mu.Unlock()

	m.mu.Lock()
	f(m)
	m.mu.Unlock()

	x.mu.Lock()
	defer x.mu.Unlock()
	if m.callers--; m.callers == 0 && m.users == 0 {
		delete(x.open, k)
	}
}

// shareIPC lets this process import what it exported.
func (d *device) shareIPC(a *ipcMemory) {
	d.backend.imports.with(a.key, func(m *ipcMapping) {
		m.users, m.address, m.size, m.own = 1, a.address, a.size, true
	})
}

// openIPC adds a user to the mapping of k, and maps the allocation for the first one.
func (d *device) openIPC(k ipcKey) (address uintptr, size int64, err error) {
	d.backend.imports.with(k, func(m *ipcMapping) {
		if m.users == 0 {
			if err = d.mapIPC(m, k.handle); err != nil {
				return
			}
		}
		m.users++
		address, size = m.address, m.size
	})
	return address, size, err
}

// mapIPC maps an allocation of another process.
func (d *device) mapIPC(m *ipcMapping, h IPCHandle) error {
	address, s := d.context.OpenIPC(h)
	if err := d.checkIPC(s); err != nil {
		return err
	}
	_, size, s := d.context.Mapping(address)
	if err := d.check(s, "the size of memory of another process"); err != nil {
		d.backend.waits.afterWaits(func() { d.unmapIPC(address) }, func(bool) {})
		return err
	}
	m.address, m.size, m.own = address, size, false
	return nil
}

// closeIPC removes a user. After the last one it closes the mapping, or frees the allocation.
func (d *device) closeIPC(k ipcKey) {
	d.backend.imports.with(k, func(m *ipcMapping) {
		if m.users--; m.users > 0 {
			return
		}
		if m.own {
			d.freeNow(m.address)
		} else {
			d.unmapIPC(m.address)
		}
	})
}

// unmapIPC closes a mapping of memory of another process.
func (d *device) unmapIPC(address uintptr) {
	_ = d.check(d.context.CloseIPC(address), "memory of another process")
}

// checkIPC is check for calls that open a handle of another process.
func (d *device) checkIPC(s Status) error {
	switch s.Kind {
	case BadContext:
		return d.backend.statusf(core.ErrNotSupported, s, "the handle was made in this process, by another context; or another context of this process has opened handles of the same process")
	case BadValue, BadHandle:
		return d.backend.statusf(core.ErrInvalid, s, "this is not a handle, or the process that made it has ended or freed the memory or event")
	}
	return d.check(s, "a handle of another process")
}
