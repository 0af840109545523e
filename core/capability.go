package core

import (
	"encoding/hex"
	"math/bits"
	"slices"
	"strings"
)

// Capabilities is a set of capabilities: what a device declares that it can do. The
// conformance suite (backends/backendtest) skips a case only if the device does not declare
// a capability that the case needs.
type Capabilities uint32

// The capabilities. A comment that is the name of an interface means that the device
// offers that interface: see [As].
const (
	CapAsync            Capabilities = 1 << iota // work on a stream may be unfinished when the call that enqueued it returns
	CapHostMemory                                // device memory is host memory: the host can use its address
	CapStreamWait                                // streams wait for events of other streams of the device without the host
	CapImportPointer                             // PointerImporter
	CapMapHost                                   // HostMapper
	CapExportMemory                              // MemoryExporter
	CapImportMemory                              // MemoryImporter
	CapSemaphores                                // SemaphoreCreator
	CapExportSemaphores                          // SemaphoreExporter
	CapImportSemaphores                          // SemaphoreImporter
	CapPeer                                      // PeerCopier
	CapPool                                      // PoolController
	CapSubByte                                   // strided copies of packed elements of fewer than 8 bits
	CapHostView                                  // HostViewer
	CapImportStream                              // StreamImporter
	CapIPCEvents                                 // IPCEventCreator
	CapBatchCopy                                 // BatchCopier
	CapDeviceClock                               // DeviceClock
	CapConvert                                   // Converter
)

var capabilityNames = [...]string{
	"async", "host_memory", "stream_wait", "import_pointer", "map_host",
	"export_memory", "import_memory", "semaphores", "export_semaphores", "import_semaphores",
	"peer", "pool", "sub_byte", "host_view", "import_stream", "ipc_events",
	"batch_copy", "device_clock", "convert",
}

// Has reports whether all of want are in the set.
func (c Capabilities) Has(want Capabilities) bool { return c&want == want }

// Names returns the names of the capabilities in the set, such as "map_host".
func (c Capabilities) Names() []string {
	names := make([]string, 0, bits.OnesCount32(uint32(c)))
	for i, name := range capabilityNames {
		if c.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// String returns the names, separated by commas.
func (c Capabilities) String() string { return strings.Join(c.Names(), ",") }

// MarshalText returns the names, separated by commas.
func (c Capabilities) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses the output of MarshalText. It returns ErrInvalid for an unknown
// name.
func (c *Capabilities) UnmarshalText(text []byte) error {
	var set Capabilities
	for name := range strings.SplitSeq(string(text), ",") {
		i := slices.Index(capabilityNames[:], name)
		if i < 0 && len(text) > 0 {
			return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is not a capability", name)
		} else if i >= 0 {
			set |= 1 << i
		}
	}
	*c = set
	return nil
}

// UUID identifies a device or a driver, as in VkPhysicalDeviceIDProperties of Vulkan. The
// zero UUID means that there is none.
type UUID [16]byte

// String returns the 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MarshalText returns the same text as [UUID.String].
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses 32 hexadecimal digits with any number of hyphens between them. It
// returns ErrInvalid for anything else.
func (u *UUID) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(strings.ReplaceAll(string(text), "-", ""))
	if err != nil || len(b) != len(u) {
		return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is not a UUID", text)
	}
	copy(u[:], b)
	return nil
}
