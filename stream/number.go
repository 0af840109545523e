package stream

import "github.com/dlx-go/dlx/core"

// Kind is what a [Number] stands for.
type Kind uint8

// The kinds.
const (
	// Default is the legacy default stream of CUDA, the default stream of ROCm,
	// and on the CPU, which has no streams, the order of the host itself.
	Default Kind = iota
	// PerThreadDefault is CUDA's default stream of the calling thread.
	PerThreadDefault
	// NoSync asks the producer not to wait: the consumer sees to the order itself.
	NoSync
	// Handle is a stream of the API, a cudaStream_t or hipStream_t.
	Handle
)

var kindNames = [...]string{"default", "per_thread_default", "no_sync", "handle"}

// String gives the kind's name: "no_sync".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Number is the stream that a consumer names in DLPack's exchange, the argument
// stream of __dlpack__ in the Python array API standard. The producer makes its
// data safe to use on it.
type Number struct {
	Kind   Kind
	Handle uintptr // for the kind Handle, else 0
}

// lowestHandle is the first number that is a handle: those below have a meaning.
const lowestHandle = 3

// meanings are the numbers below lowestHandle, by the backend that serves the
// device. So pinned and managed memory count as the GPU's that made them: what
// may still be running on them are its streams, though the host can reach them.
var meanings = map[string]map[int64]Kind{
	"cuda": {-1: NoSync, 1: Default, 2: PerThreadDefault},
	"rocm": {-1: NoSync, 0: Default},
}

// FromNone says what the absence of a number means, Python's stream=None: the
// default stream, for every type of device.
func FromNone() Number { return Number{Kind: Default} }

// FromDLPack reads the number that a consumer gave for a device of type t; see
// [FromNone] for its absence. It fails with core.ErrInvalid for a number that the
// standard forbids: 0 on CUDA, which could be either default, any number on the
// CPU, below -1 everywhere; and with core.ErrNotSupported for 1 and 2 on
// ROCm and for devices whose stream numbers the standard leaves open.
func FromDLPack(t core.DeviceType, number int64) (Number, error) {
	fail := func(sentinel error, why string) (Number, error) {
		return Number{}, core.Errorf(sentinel, "dlpack", "FromDLPack", "stream %d on %v: %s", number, t, why)
	}
	if t == core.DeviceCPU {
		return fail(core.ErrInvalid, "the CPU has no streams, pass none")
	}
	known, ok := meanings[t.BackendName()]
	if !ok {
		return fail(core.ErrNotSupported, "the standard defines no stream numbers for this device, pass none")
	}
	if kind, ok := known[number]; ok {
		return Number{Kind: kind}, nil
	}
	switch {
	case number >= lowestHandle && int64(uintptr(number)) == number:
		return Number{Kind: Handle, Handle: uintptr(number)}, nil
	case number == 0:
		return fail(core.ErrInvalid, "ambiguous: pass 1 for the legacy default stream or 2 for the thread's")
	case number == 1 || number == 2:
		return fail(core.ErrNotSupported, "pass 0 for the default stream")
	default:
		return fail(core.ErrInvalid, "pass -1, a default stream's number or a handle")
	}
}

// ToDLPack gives the number that names n to the producer of memory on a device of
// type t. With none there is no number to pass, only Python's None: on the CPU,
// and for Default on devices whose numbers the standard leaves open. It fails with
// core.ErrInvalid if a handle is one of the numbers that have a meaning, or is
// given with another kind, and with core.ErrNotSupported where t has no such stream.
func ToDLPack(t core.DeviceType, n Number) (number int64, none bool, err error) {
	fail := func(sentinel error, why string) (int64, bool, error) {
		return 0, false, core.Errorf(sentinel, "dlpack", "ToDLPack", "stream %v on %v: %s", n.Kind, t, why)
	}
	known, numbered := meanings[t.BackendName()]
	switch {
	case n.Kind != Handle && n.Handle != 0:
		return fail(core.ErrInvalid, "only the kind Handle has a handle")
	case !numbered && n.Kind == Default:
		return 0, true, nil
	case !numbered:
		return fail(core.ErrNotSupported, "the device has no stream numbers")
	case n.Kind == Handle:
		if number = int64(n.Handle); number < lowestHandle {
			return fail(core.ErrInvalid, "the handle is out of range; a default stream has a kind of its own")
		}
		return number, false, nil
	}
	for number, kind := range known {
		if kind == n.Kind {
			return number, false, nil
		}
	}
	return fail(core.ErrNotSupported, "the device has no such stream")
}
