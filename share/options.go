package share

import (
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Options controls a connection.
type Options struct {
	// Devices are the opened devices on which this process can open memory of the peer. The
	// caller keeps them open until the connection is closed. With a device of the host
	// (backends/cpu) among them, tensors whose memory cannot be shared are copied into host
	// memory that can.
	Devices []core.Device
	// Limits bound what the peer may have passed at any time. 0 in a field selects its default.
	Limits Limits
	// UserLimits bound what the processes of one user have passed by all their connections to a
	// [Listener]. 0 in a field selects its default. Dial and New do not use them.
	UserLimits UserLimits
	// ReadOnly makes all tensors that are sent read-only for the receiver. Host memory is then
	// sealed for ever against other mappings for writing. Another connection without ReadOnly
	// copies that memory.
	ReadOnly bool
	// Mode is the permissions of the socket that [Listen] makes; 0 means 0600, for the same
	// user only. A process needs the permission to write the socket to connect.
	Mode fs.FileMode
	// Allow, if not nil, is called for each process that connects, before it is answered. If
	// it returns an error, the connection is closed. [Peer.Devices] is not known yet.
	Allow func(Peer) error

	patience time.Duration // see defaultPatience; tests set it
	exitTime time.Duration // see defaultExitTime; tests set it
}

// AllowUsers returns a function for Options.Allow that permits processes of the given users only,
// by the user that the system reports (SO_PEERCRED). A user of another user namespace has the
// number that it has in the namespace of this process, and 65534 if it has none.
func AllowUsers(uids ...uint32) func(Peer) error {
	list := slices.Clone(uids)
	return func(p Peer) error {
		if slices.Contains(list, p.UID) {
			return nil
		}
		return core.Errorf(core.ErrNotSupported, "share", "Allow", "%v is not of one of the users %v", p, list)
	}
}

// Limits bound what a process may have passed to another one. Each side tells its limits to the
// other one, whose Send waits until something was released. A peer that goes beyond them loses
// the connection.
type Limits struct {
	Tensors  int   // that were passed and not released; default 64, at most 65536
	Memories int   // that are open, each of which may take a descriptor; default 256, at most 65536
	Bytes    int64 // of these memories together; default 64 GiB
}

// maxLimit bounds the tensors and memories.
const maxLimit = 1 << 16

// withDefaults returns l with the defaults. It fails with ErrInvalid.
func (l Limits) withDefaults() (Limits, error) {
	if l.Tensors < 0 || l.Memories < 0 || l.Bytes < 0 || l.Tensors > maxLimit || l.Memories > maxLimit {
		return l, core.Errorf(core.ErrInvalid, "share", "Options", "Limits are %+v: no field may be negative, Tensors and Memories may be at most %d", l, maxLimit)
	}
	if l.Tensors == 0 {
		l.Tensors = 64
	}
	if l.Memories == 0 {
		l.Memories = 256
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 30
	}
	return l, nil
}

// check completes the options. It fails with ErrInvalid.
func (o *Options) check() (err error) {
	if o.Limits, err = o.Limits.withDefaults(); err != nil {
		return err
	}
	if o.UserLimits, err = o.UserLimits.withDefaults(); err != nil {
		return err
	}
	if len(o.Devices) > maxDevices {
		return core.Errorf(core.ErrInvalid, "share", "Options", "%d devices were given; %d are possible", len(o.Devices), maxDevices)
	}
	o.Devices = slices.Clone(o.Devices)
	for i, d := range o.Devices {
		if d == nil {
			return core.Errorf(core.ErrInvalid, "share", "Options", "Devices[%d] is nil", i)
		}
	}
	if o.patience == 0 {
		o.patience = defaultPatience
	}
	if o.exitTime == 0 {
		o.exitTime = defaultExitTime
	}
	if o.Mode == 0 {
		o.Mode = 0o600
	}
	if o.Mode&^fs.ModePerm != 0 {
		return core.Errorf(core.ErrInvalid, "share", "Options", "Mode is %v: it can have permissions only", o.Mode)
	}
	return nil
}

// Peer is the process at the other end of a connection. The system vouches for its numbers, as
// they were when the connection was made. The process tells its devices.
type Peer struct {
	PID     int32        `json:"pid"` // 0 if the process is in a PID namespace that this one cannot see
	UID     uint32       `json:"uid"`
	GID     uint32       `json:"gid"`
	Devices []PeerDevice `json:"devices"` // known after [Conn.Handshake]
}

// String returns, for example, "process 71 of user 1000".
func (p Peer) String() string { return fmt.Sprintf("process %d of user %d", p.PID, p.UID) }

// PeerDevice is a device on which a peer can open memory.
type PeerDevice struct {
	ID               core.DeviceID     `json:"id"` // as the peer calls it
	UUID             core.UUID         `json:"uuid,omitzero"`
	DriverUUID       core.UUID         `json:"driver_uuid,omitzero"`
	PCI              string            `json:"pci,omitempty"`
	Exports          []core.HandleType `json:"exports"` // of memory
	Imports          []core.HandleType `json:"imports"`
	SemaphoreExports []core.HandleType `json:"semaphore_exports"`
	SemaphoreImports []core.HandleType `json:"semaphore_imports"`
	IPCEvents        bool              `json:"ipc_events"`
}

// describe says what a device can do.
func describe(d core.Device) PeerDevice {
	p := d.Properties()
	none := []core.HandleType{} // not nil, for JSON
	x := PeerDevice{ID: p.ID, UUID: p.UUID, DriverUUID: p.DriverUUID, PCI: p.PCI, Exports: none, Imports: none, SemaphoreExports: none, SemaphoreImports: none}
	if e, ok := core.As[core.MemoryExporter](d); ok {
		x.Exports = e.ExportTypes()
	}
	if i, ok := core.As[core.MemoryImporter](d); ok {
		x.Imports = i.ImportTypes()
	}
	if e, ok := core.As[core.SemaphoreExporter](d); ok {
		x.SemaphoreExports = e.SemaphoreExportTypes()
	}
	if i, ok := core.As[core.SemaphoreImporter](d); ok {
		x.SemaphoreImports = i.SemaphoreImportTypes()
	}
	_, x.IPCEvents = core.As[core.IPCEventCreator](d)
	return x
}

// object is what a device opens: memory or semaphores.
type object string

const (
	memories   object = "memory"
	semaphores object = "semaphores"
)

// types returns the handle types of objects that a device opens.
func (d *PeerDevice) types(o object) []core.HandleType {
	if o == semaphores {
		return d.SemaphoreImports
	}
	return d.Imports
}

// opens returns why a device cannot open an object that another one, exporter, exports as t: nil if
// it can. The device is in the process that owner names.
func (d *PeerDevice) opens(owner string, exporter *PeerDevice, t core.HandleType, o object) error {
	var none core.UUID
	types := d.types(o)
	switch sameDriver := d.DriverUUID == exporter.DriverUUID || d.DriverUUID == none || exporter.DriverUUID == none; {
	case len(types) == 0:
		return fmt.Errorf("%v of %s opens no %s of other processes", d.ID, owner, o)
	case !slices.Contains(types, t):
		return fmt.Errorf("%v of %s opens %s of the types %v, and not of %v", d.ID, owner, o, types, t)
	case t == core.HandleMemFD:
		return nil
	case t == core.HandleDMABuf && exporter.UUID == none:
		return nil
	case d.UUID != exporter.UUID:
		return fmt.Errorf("%v of %s is another device, with the UUID %v, and not %v", d.ID, owner, d.UUID, exporter.UUID)
	case t != core.HandleDMABuf && !sameDriver:
		return fmt.Errorf("%v of %s has another driver, with the UUID %v, and not %v", d.ID, owner, d.DriverUUID, exporter.DriverUUID)
	}
	return nil
}

// opener returns why none of the peer's devices opens what another one, exporter, exports as t: nil
// if one does.
func opener(peer []PeerDevice, exporter *PeerDevice, t core.HandleType, o object) error {
	var reasons []error
	for i := range peer {
		err := peer[i].opens("the peer", exporter, t, o)
		if err == nil {
			return nil
		}
		reasons = append(reasons, err)
	}
	if len(reasons) == 0 {
		return core.Errorf(core.ErrNotSupported, "", "", "the peer has no opened device")
	}
	return joinReasons(reasons)
}
