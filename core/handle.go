package core

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/internal/live"
)

// HandleType is the type of a [Handle]: what the handle stands for, and what its payload
// is. The numbers are part of the format that [ExternalMemory.MarshalWithFDs] writes, so
// new types are added at the end.
type HandleType uint32

// The handle types.
const (
	HandleOpaqueFD    HandleType = iota + 1 // POSIX descriptor that only the same driver and device can import
	HandleDMABuf                            // POSIX descriptor of a Linux dma-buf
	HandleMemFD                             // POSIX descriptor of a memfd, which is host memory that mmap maps
	HandleIPC                               // bytes that only drivers of one vendor can import, such as CUipcMemHandle and hipIpcMemHandle_t
	HandleOpaqueWin32                       // NT handle that only the same driver and device can import
	HandleMachPort                          // Mach port with a send right, as IOSurfaceCreateMachPort returns it. No backend makes or takes one: a port travels only in Mach messages, which need cgo
	HandleBinaryFD                          // POSIX descriptor of a binary semaphore that only the same driver and device can import; see BinarySemaphore
)

// payload is what a handle is made of.
type payload uint8

const (
	noPayload   payload = iota
	descriptor          // a number, closed by close
	win32Handle         // a number, closed by CloseHandle
	machPort            // a number, closed by mach_port_deallocate
	opaqueBytes         // nothing to close
)

var handleTypes = [...]struct {
	name    string
	payload payload
}{
	{"none", noPayload},
	HandleOpaqueFD:    {"opaque_fd", descriptor},
	HandleDMABuf:      {"dma_buf", descriptor},
	HandleMemFD:       {"mem_fd", descriptor},
	HandleIPC:         {"ipc", opaqueBytes},
	HandleOpaqueWin32: {"opaque_win32", win32Handle},
	HandleMachPort:    {"mach_port", machPort},
	HandleBinaryFD:    {"binary_fd", descriptor},
}

func (h HandleType) payload() payload {
	if int64(h) < int64(len(handleTypes)) {
		return handleTypes[h].payload
	}
	return noPayload
}

// String returns the name of the type, such as "opaque_fd".
func (h HandleType) String() string {
	if int64(h) < int64(len(handleTypes)) {
		return handleTypes[h].name
	}
	return "unknown"
}

// MarshalText returns the same text as [HandleType.String].
func (h HandleType) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses the output of [HandleType.String]. It returns ErrInvalid for anything
// else.
func (h *HandleType) UnmarshalText(text []byte) error {
	for i := range handleTypes {
		if handleTypes[i].name == string(text) {
			*h = HandleType(i)
			return nil
		}
	}
	return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is not a handle type", text)
}

// IsFD reports whether handles of this type are POSIX descriptors.
func (h HandleType) IsFD() bool { return h.payload() == descriptor }

// Vendor is a maker of devices. An IPC handle names the vendor whose drivers can import it.
type Vendor uint8

// The vendors. The numbers are part of the format that [ExternalMemory.MarshalWithFDs]
// writes, so new vendors are added at the end.
const (
	VendorNVIDIA Vendor = iota + 1
	VendorAMD
	VendorIntel
)

var vendorNames = [...]string{"none", "nvidia", "amd", "intel"}

// String returns the name of the vendor, such as "nvidia".
func (v Vendor) String() string {
	if int(v) < len(vendorNames) {
		return vendorNames[v]
	}
	return "unknown"
}

// MarshalText returns the same text as [Vendor.String].
func (v Vendor) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText parses the output of [Vendor.String]. It returns ErrInvalid for anything
// else.
func (v *Vendor) UnmarshalText(text []byte) error {
	i := slices.Index(vendorNames[:], string(text))
	if i < 0 {
		return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is not a vendor", text)
	}
	*v = Vendor(i)
	return nil
}

// Handle stands for memory, a semaphore or an event outside of the API that made it. It
// owns a payload, by which another API or process opens the object. The payload is a
// descriptor or another number of the operating system, or bytes that the drivers of one
// vendor understand.
//
// Devices make handles when they export something. Package backendkit has functions that make
// handles of descriptors and bytes.
//
// A handle has one owner, who closes it. A call that imports a handle takes the payload on
// success, and leaves it in the handle on failure. "defer h.Close()" is therefore right
// wherever a handle is made. A handle whose payload was taken, or that was closed, is
// empty. Closing an empty handle does nothing; other uses of it return ErrClosed.
//
// The zero value and a nil *Handle have no type and no payload. A Handle must not be
// copied. It is safe for concurrent use.
type Handle struct {
	kind   HandleType // fixed, like vendor
	vendor Vendor     // of HandleIPC
	file   fileID     // that a descriptor refers to. The handle owns the descriptor, so it refers to nothing else later

	mu     sync.Mutex
	open   bool
	number uintptr // of the operating system, where the type has one
	bytes  []byte  // where it has not; never written
}

// liveHandles counts the handles that hold something of the operating system.
var liveHandles = live.NewCounter("core.Handle")

// maxHandleBytes bounds the payload of an IPC handle. Those of CUDA, HIP and Level Zero
// have 64 bytes.
const maxHandleBytes = 256

// NewHandle is NewHandle of package backendkit.
func (privateCore) NewHandle(t HandleType, number uintptr) (*Handle, error) {
	const call = "NewHandle"
	switch t.payload() {
	case noPayload, opaqueBytes:
		return nil, Errorf(ErrInvalid, "core", call, "a handle of type %v is not made of a number of the system", t)
	}
	id, err := checkNumber(call, t, number)
	if err != nil {
		return nil, err
	}
	liveHandles.Add(1)
	return &Handle{kind: t, file: id, open: true, number: number}, nil
}

// NewIPCHandle is NewIPCHandle of package backendkit.
func (privateCore) NewIPCHandle(v Vendor, payload []byte) (*Handle, error) {
	const call = "NewIPCHandle"
	switch {
	case v == 0 || int(v) >= len(vendorNames):
		return nil, Errorf(ErrInvalid, "core", call, "vendor %d is not known", uint8(v))
	case len(payload) == 0 || len(payload) > maxHandleBytes:
		return nil, Errorf(ErrInvalid, "core", call, "the payload has %d bytes; 1 to %d are possible", len(payload), maxHandleBytes)
	}
	return &Handle{kind: HandleIPC, vendor: v, open: true, bytes: bytes.Clone(payload)}, nil
}

// Type returns the type of the handle. An empty handle still has its type. Type returns 0
// for a nil handle and for the zero value.
func (h *Handle) Type() HandleType {
	if h == nil {
		return 0
	}
	return h.kind
}

// Vendor returns the vendor of an IPC handle, and 0 for handles of other types.
func (h *Handle) Vendor() Vendor {
	if h == nil {
		return 0
	}
	return h.vendor
}

// Number returns the descriptor, Win32 handle or Mach port. The handle still owns it, so
// the caller must not close it. It is valid until the handle is closed or its payload is
// taken. Number returns ErrInvalid for an IPC handle and for a handle without a type, and
// ErrClosed for an empty handle.
func (h *Handle) Number() (uintptr, error) { return h.system("Number", false) }

// Take is like Number, but the caller owns the result, and the handle is empty afterwards.
// An importer calls Take if its driver takes ownership of descriptors. To leave the handle
// as it is when the driver fails, the importer calls Take on a duplicate.
func (h *Handle) Take() (uintptr, error) { return h.system("Take", true) }

func (h *Handle) system(call string, take bool) (uintptr, error) {
	if p := h.Type().payload(); p == noPayload || p == opaqueBytes {
		return 0, Errorf(ErrInvalid, "core", call, "a handle of type %v has no number of the system", h.Type())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return 0, h.empty(call)
	}
	if take {
		h.open = false
		liveHandles.Add(-1)
	}
	return h.number, nil
}

// Payload returns a copy of the bytes of an IPC handle. It returns ErrInvalid for handles
// of other types, and ErrClosed for an empty handle.
func (h *Handle) Payload() ([]byte, error) {
	const call = "Payload"
	if h.Type().payload() != opaqueBytes {
		return nil, Errorf(ErrInvalid, "core", call, "a handle of type %v has no bytes", h.Type())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return nil, h.empty(call)
	}
	return bytes.Clone(h.bytes), nil
}

// Duplicate returns another handle of the same object. The caller closes it. A descriptor
// is duplicated so that programs that this process starts do not inherit it. Duplicate
// returns ErrInvalid for a nil handle, for the zero value, and if the number is no longer
// open. It returns ErrClosed for an empty handle, and ErrOutOfMemory if the process cannot
// open another descriptor.
func (h *Handle) Duplicate() (*Handle, error) {
	const call = "Duplicate"
	if h.Type() == 0 {
		return nil, Errorf(ErrInvalid, "core", call, "the handle has no type")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return nil, h.empty(call)
	}
	d := &Handle{kind: h.kind, vendor: h.vendor, file: h.file, open: true, bytes: h.bytes}
	if h.kind.payload() == opaqueBytes {
		return d, nil
	}
	var err error
	if d.number, err = duplicateNumber(call, h.number); err != nil {
		return nil, err
	}
	liveHandles.Add(1)
	return d, nil
}

// Close closes the payload. It does nothing for an empty handle, the zero value and nil.
// Close returns ErrInvalid if the number was closed without the handle. The handle is empty
// afterwards even then.
func (h *Handle) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return nil
	}
	h.open = false
	if h.kind.payload() == opaqueBytes {
		return nil
	}
	liveHandles.Add(-1)
	return closeNumber("Close", h.number)
}

// empty is the error of a call that needs the payload.
func (h *Handle) empty(call string) error {
	return Errorf(ErrClosed, "core", call, "the handle of type %v is empty: it was closed, or imported before; duplicate it to import it again", h.kind)
}

// String returns the type of the handle and its payload, such as "opaque_fd 7", "ipc of
// nvidia" or "mem_fd, empty".
func (h *Handle) String() string {
	if h.Type() == 0 {
		return HandleType(0).String()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.open:
		return h.kind.String() + ", empty"
	case h.kind.payload() == opaqueBytes:
		return h.kind.String() + " of " + h.vendor.String()
	}
	return fmt.Sprintf("%v %d", h.kind, h.number)
}
