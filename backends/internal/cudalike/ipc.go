package cudalike

import (
	"sync"

	"github.com/dlx-go/dlx/core"
)

// IPCUnit is what an allocation for other processes is rounded up to. The driver cuts
// smaller ones out of one block, all of which a handle opens to the other process
// (CUDA C++ Programming Guide, "Interprocess Communication").
const IPCUnit = 2 << 20

// ipcMemory is an allocation that other processes may open.
type ipcMemory struct {
	address  uintptr
	whole    int64
	exported bool // somebody may have it open: see [device.EndExport]
	listed   bool // in ipcImports, by key
	key      ipcKey
}

// freeIPC gives an allocation back, or leaves that to the last user in this process.
func (d *device) freeIPC(m *ipcMemory) {
	if m.listed {
		d.closeIPC(m.key)
	} else {
		d.freePlain(m.address)
	}
}

// freePlain frees an allocation of allocIPC. Who frees learns of no error: the device
// does, if it is lost.
func (d *device) freePlain(address uintptr) {
	_ = d.check(d.context.Free(address), "memory that other processes can open")
}

// ipcExports are the allocations of a device that other processes may open.
type ipcExports struct {
	mu   sync.Mutex
	all  map[uintptr]*ipcMemory // in use, by address
	kept []*ipcMemory           // freed here, while others may have them open
}

// allocIPC allocates memory that can be exported as HandleIPC: an allocation of its own. The
// size is at least 1.
func (d *device) allocIPC(size int64) (core.Memory, error) {
	m := &ipcMemory{whole: (size + IPCUnit - 1) / IPCUnit * IPCUnit}
	err := d.allocApart(m.whole, size, core.HandleIPC, func() (s Status) {
		m.address, s = d.context.Alloc(m.whole)
		return s
	})
	if err != nil {
		return core.Memory{}, err
	}
	d.ipc.add(m)
	return d.handOut(d.ID(), m.address, size, d.after(func() {
		if d.ipc.remove(m) {
			d.freeIPC(m)
			d.uncharge(m.whole, size)
		}
	})), nil
}

func (e *ipcExports) add(m *ipcMemory) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = make(map[uintptr]*ipcMemory)
	}
	e.all[m.address] = m
}

// remove reports whether an allocation may be freed. "Calling cuMemFree on an exported
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

// freeKept frees what others might still use: the device closes.
func (d *device) freeKept() {
	e := &d.ipc
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.kept {
		d.freeIPC(m)
	}
	e.kept = nil
}

// exportIPC gives the handle of m, an allocation of allocIPC, whose buffer the caller holds.
func (d *device) exportIPC(m core.Memory) (core.ExternalMemory, error) {
	const call = "ExportMemory"
	d.ipc.mu.Lock()
	defer d.ipc.mu.Unlock()
	whole := d.ipc.all[m.Handle]
	if whole == nil {
		return core.ExternalMemory{}, d.Errorf(core.ErrInvalid, call, "the buffer was not allocated with AllocOptions.Export = %v, or has no bytes", core.HandleIPC)
	}
	h, s := d.context.ExportIPC(whole.address)
	if err := d.check(s, "of %#x", whole.address); err != nil {
		return core.ExternalMemory{}, err
	}
	handle, err := core.NewIPCHandle(d.backend.Vendor, h[:])
	if err != nil {
		return core.ExternalMemory{}, err
	}
	whole.exported = true
	if !whole.listed {
		whole.listed, whole.key = true, ipcKey{d.context.ID(), h}
		d.listIPC(whole)
	}
	return core.ExternalMemory{
		Handle: handle, Size: whole.whole, Offset: m.Offset, Length: m.Size,
		DeviceUUID: d.Info.UUID,
	}, nil
}

// end notes that no other process has the allocation at an address open, and reports
// whether there is one that can be exported.
func (e *ipcExports) end(address uintptr) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.all[address]
	if m != nil {
		m.exported = false
	}
	return m != nil
}

// importIPC maps an allocation of another process, or finds one of this. m was checked;
// that it is as large as it says, the driver tells.
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
		d.closeIPC(k)
		return core.Memory{}, d.Errorf(core.ErrInvalid, "ImportMemory", "Size is %d bytes, and the handle's allocation has %d", m.Size, size)
	}
	_ = m.Close()
	return d.handOut(d.ID(), address+uintptr(m.Offset), m.Length, d.after(func() { d.closeIPC(k) })), nil
}

// ipcHandle returns the payload of an IPC handle.
func (d *device) ipcHandle(call string, h *core.Handle) (raw IPCHandle, err error) {
	payload, err := h.Payload()
	if err != nil {
		return raw, d.importer().Refused(call, err)
	}
	if len(payload) != len(raw) {
		return raw, d.Errorf(core.ErrInvalid, call, "the handle has %d bytes, and those of %s have %d", len(payload), d.backend.API, len(raw))
	}
	return IPCHandle(payload), nil
}

// ipcKey names an allocation where it is mapped.
type ipcKey struct {
	context ContextID
	handle  IPCHandle
}

// ipcMapping is an allocation that is open, or about to be, or no more.
type ipcMapping struct {
	callers int // of its with; guarded by ipcImports.mu

	mu      sync.Mutex // held while the driver opens and closes, which may take long
	users   int
	address uintptr
	size    int64
	own     bool // allocated in this process, whose device is a user
}

// ipcImports are those of this process. A context maps an allocation once, whichever
// of our devices on it asks: drivers such as those before CUDA 11 refuse to do it again, and it takes
// long. What this process exported is there too, since no driver opens a handle where it was made.
type ipcImports struct {
	mu   sync.Mutex
	open map[ipcKey]*ipcMapping
}

// with calls f with the mapping of a key, and for no other goroutine meanwhile. Without
// users it is forgotten.
func (x *ipcImports) with(k ipcKey, f func(*ipcMapping)) {
	x.mu.Lock()
	m := x.open[k]
	if m == nil {
		if x.open == nil {
			x.open = make(map[ipcKey]*ipcMapping)
		}
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

// listIPC lets this process open what it exported.
func (d *device) listIPC(e *ipcMemory) {
	d.backend.imports.with(e.key, func(m *ipcMapping) {
		m.users, m.address, m.size, m.own = 1, e.address, e.whole, true
	})
}

// openIPC maps what is not mapped, for one user more.
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

// mapIPC has the driver map an allocation of another process.
func (d *device) mapIPC(m *ipcMapping, h IPCHandle) error {
	address, s := d.context.OpenIPC(h)
	if err := d.checkIPC(s); err != nil {
		return err
	}
	_, size, s := d.context.Mapping(address)
	if err := d.check(s, "of memory of another process"); err != nil {
		d.unmapIPC(address)
		return err
	}
	m.address, m.size, m.own = address, size, false
	return nil
}

// closeIPC ends one use, and with the last one the mapping, or the allocation.
func (d *device) closeIPC(k ipcKey) {
	d.backend.imports.with(k, func(m *ipcMapping) {
		if m.users--; m.users > 0 {
			return
		}
		if m.own {
			d.freePlain(m.address)
		} else {
			d.unmapIPC(m.address)
		}
	})
}

// unmapIPC is freePlain for memory of another process.
func (d *device) unmapIPC(address uintptr) {
	_ = d.check(d.context.CloseIPC(address), "memory of another process")
}

// checkIPC is check for calls that open a handle of another process.
func (d *device) checkIPC(s Status) error {
	switch s.Kind {
	case BadContext:
		return d.backend.statusf(core.ErrNotSupported, s, "the handle is of this very process, and of another context; or another context of this process has opened handles of that one")
	case BadValue, BadHandle:
		return d.backend.statusf(core.ErrInvalid, s, "this is no handle, or the process that gave it has ended or freed what it stands for")
	}
	return d.check(s, "a handle of another process")
}
