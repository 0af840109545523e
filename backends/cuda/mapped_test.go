//go:build cuda && linux && cgo

package cuda

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// CUmemLocation, CUmemAllocationProp and CUmemAccessDesc.
type (
	location   struct{ kind, id int32 }
	properties struct {
		kind, handles int32
		at            location
		_             [8]byte
		flags         [4]byte // compressionType, gpuDirectRDMACapable
		_             [12]byte
	}
	access struct {
		at    location
		flags int32
	}
)

const (
	onDevice, onHostNUMA = 1, 3      // CUmemLocationType
	readWrite            = 3         // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	unit                 = 2 << 20   // what the simulator maps in
	many                 = 100 << 10 // bytes that are copied
)

// segment reserves addresses for n mappings and maps memory of a place to those before holes, one by one, as PyTorch
// does for its expandable segments. Device 0 gets access. The mappings end with the test.
func segment(t *testing.T, other *gpusimtest.Driver, at location, n, mapped uint64) (start uintptr) {
	t.Helper()
	return segmentOf(t, other, properties{kind: 1, at: at}, n, mapped)
}

// segmentOf is segment for memory with other properties.
func segmentOf(t *testing.T, other *gpusimtest.Driver, p properties, n, mapped uint64) (start uintptr) {
	t.Helper()
	var ptr uint64
	other.OK("cuMemAddressReserve", &ptr, n*unit, 0, 0, 0)
	for i := range mapped {
		var memory uint64
		other.OK("cuMemCreate", &memory, unit, &p, 0)
		other.OK("cuMemMap", ptr+i*unit, unit, 0, memory, 0)
		other.OK("cuMemRelease", memory)
	}
	other.OK("cuMemSetAccess", ptr, mapped*unit, &access{location{onDevice, 0}, readWrite}, 1)
	t.Cleanup(func() {
		other.OK("cuMemUnmap", ptr, mapped*unit)
		other.OK("cuMemAddressFree", ptr, n*unit)
	})
	return uintptr(ptr)
}

// checkImported imports bytes, and copies through them.
func checkImported(t *testing.T, d core.Device, p uintptr, size int64) {
	t.Helper()
	m, err := d.(core.PointerImporter).ImportPointer(p, size, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != d.ID() || m.Handle != p || m.Size != size {
		t.Errorf("%+v: want %d bytes of %v at %#x", m, size, d.ID(), p)
	}
	copyThrough(t, d, keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})), pattern(int(size), 5))
}

// A tensor of PyTorch may begin in one mapping and end in another one. cuMemGetAddressRange returns one mapping only.
func TestAnExpandableSegmentIsImported(t *testing.T) {
	simulator(t)
	other := gpusimtest.Start(t)
	d := opened(t)
	p := segment(t, other, location{onDevice, 0}, 4, 3)
	checkImported(t, d, p+unit-many/2, many)
	checkImported(t, d, p+100, 3*unit-100)
	wantRefused := func(p uintptr, size int64, why string) {
		t.Helper()
		_, err := d.(core.PointerImporter).ImportPointer(p, size, nil)
		wantError(t, err, core.ErrInvalid, why)
	}
	wantRefused(p+3*unit-1, 2, "a byte beyond what is mapped")
	wantRefused(p+3*unit, 1, "addresses without memory")
	other.OK("cuMemSetAccess", uint64(p+2*unit), unit, &access{location{onDevice, 0}, 0}, 1)
	wantRefused(p+2*unit-1, 2, "memory that was closed to the device")
	checkImported(t, d, p, 2*unit)
}

// The driver says that the host has the memory, and no address for the host: a host that uses it without access faults.
func TestMemoryOfTheHostThatIsMappedIsUsedByTheDevice(t *testing.T) {
	simulator(t)
	other := gpusimtest.Start(t)
	d := opened(t)
	p := segment(t, other, location{onHostNUMA, 0}, 2, 2)
	checkImported(t, d, p+unit-many/2, many)
	// A library that gave the host access says that the memory is the host's.
	for _, id := range []core.DeviceID{d.ID(), {Type: core.DeviceCUDAHost}} {
		x := keep(t)(core.Wrap(core.Memory{ID: id, Handle: p, Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{many}}))
		copyThrough(t, d, x, pattern(many, 6))
	}
	closed := segment(t, other, location{onHostNUMA, 0}, 1, 1)
	other.OK("cuMemSetAccess", uint64(closed), unit, &access{location{onDevice, 0}, 0}, 1)
	_, err := d.(core.PointerImporter).ImportPointer(closed, 1, nil)
	wantError(t, err, core.ErrInvalid, "memory of the host that the device has no access to")
}

// Memory of a pool belongs to no context, and cuMemGetAddressRange does not know it ("allocation by cuMemAlloc() or
// cuMemAllocPitch()").
func TestMemoryOfAPoolOfTheDriverIsImported(t *testing.T) {
	simulator(t)
	other := gpusimtest.Start(t)
	d, peer := opened(t), opened(t, 1)
	stream := other.NewStream()
	var p uint64
	other.OK("cuMemAllocAsync", &p, many, stream)
	other.OK("cuStreamSynchronize", stream)
	t.Cleanup(func() { other.OK("cuMemFree_v2", p) })
	checkImported(t, d, uintptr(p)+1, many-1)
	_, err := d.(core.PointerImporter).ImportPointer(uintptr(p), many+1, nil)
	wantError(t, err, core.ErrInvalid, "more than was allocated")
	_, err = peer.(core.PointerImporter).ImportPointer(uintptr(p), 1, nil)
	wantError(t, err, core.ErrDevice, "memory of the other device")
}

// ipcVariable says whether other processes can open events of the simulated devices.
const ipcVariable = "DLX_GPUSIM_IPC_EVENTS"

// CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED says whether events can be shared: there are devices that share events and no
// memory, and the reverse.
func TestIPCOfEventsHasAnAttributeOfItsOwn(t *testing.T) {
	simulator(t)
	if os.Getenv(ipcVariable) == "" {
		for _, events := range []string{"=0", "=1"} {
			for _, integrated := range []string{"=0", "=1"} {
				coretest.Child(t, t.Name(), ipcVariable+events, integratedVariable+integrated)(t)
			}
		}
		return
	}
	d := opened(t)
	events, memory := os.Getenv(ipcVariable) == "1", os.Getenv(integratedVariable) == "0"
	if has := d.Properties().Capabilities.Has(core.CapIPCEvents); has != events {
		t.Errorf("IPC events: %v, want %v", has, events)
	}
	var ipc, ipcEvents bool
	for _, f := range d.Properties().Features {
		ipc = ipc || f.Name == "ipc" && f.Available
		ipcEvents = ipcEvents || f.Name == "ipc_events" && f.Available
	}
	if ipc != memory || ipcEvents != events {
		t.Errorf("the features say %v and %v, want %v and %v", ipc, ipcEvents, memory, events)
	}
	e, err := d.(core.IPCEventCreator).NewIPCEvent(t.Context())
	if !events {
		wantError(t, err, core.ErrNotSupported, "an IPC event")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = e.Close()
}
