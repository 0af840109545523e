package core

import (
	"encoding/hex"
	"math/bits"
	"slices"
	"strings"
)

// Capabilities is a set of abilities that a device declares. The conformance
// suite (backends/backendtest) leaves a case out only where the ability it needs
// is not declared.
type Capabilities uint32

// The abilities. Where an interface is named, the capability alone decides whether the
// device offers it: see [As].
const (
	CapAsync            Capabilities = 1 << iota // work on a stream may be unfinished when the call returns
	CapHostMemory                                // device memory is host memory: its address can be used by the host
	CapStreamWait                                // streams wait for each other's events without the host
	CapImportPointer                             // PointerImporter
	CapMapHost                                   // HostMapper
	CapExportMemory                              // MemoryExporter
	CapImportMemory                              // MemoryImporter
	CapSemaphores                                // SemaphoreCreator
	CapExportSemaphores                          // SemaphoreExporter
	CapImportSemaphores                          // SemaphoreImporter
	CapPeer                                      // PeerCopier
	CapPool                                      // PoolController
	CapSubByte                                   // strided copies of packed sub-byte elements
	CapHostView                                  // HostViewer
	CapImportStream                              // StreamImporter
	CapIPCEvents                                 // IPCEventCreator
)

var capabilityNames = [...]string{
	"async", "host_memory", "stream_wait", "import_pointer", "map_host",
	"export_memory", "import_memory", "semaphores", "export_semaphores", "import_semaphores",
	"peer", "pool", "sub_byte", "host_view", "import_stream", "ipc_events",
}

// Has reports whether all of want are in the set.
func (c Capabilities) Has(want Capabilities) bool { return c&want == want }

// Names lists the abilities of the set.
func (c Capabilities) Names() []string {
	names := make([]string, 0, bits.OnesCount32(uint32(c)))
	for i, name := range capabilityNames {
		if c.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// String gives the names, separated by commas.
func (c Capabilities) String() string { return strings.Join(c.Names(), ",") }

// MarshalText makes a set print by its names.
func (c Capabilities) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes. It fails with ErrInvalid for a name that is none.
func (c *Capabilities) UnmarshalText(text []byte) error {
	var set Capabilities
	for name := range strings.SplitSeq(string(text), ",") {
		i := slices.Index(capabilityNames[:], name)
		if i < 0 && len(text) > 0 {
			return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is no capability", name)
		} else if i >= 0 {
			set |= 1 << i
		}
	}
	*c = set
	return nil
}

// UUID identifies a device or driver, as in VkPhysicalDeviceIDProperties.
type UUID [16]byte

// String gives the 32 hexadecimal digits in the usual groups.
func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MarshalText makes a UUID print like [UUID.String].
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads 32 hexadecimal digits, with hyphens anywhere. It fails with ErrInvalid.
func (u *UUID) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(strings.ReplaceAll(string(text), "-", ""))
	if err != nil || len(b) != len(u) {
		return Errorf(ErrInvalid, "core", "UnmarshalText", "%q is no UUID", text)
	}
	copy(u[:], b)
	return nil
}
