package stream

import "github.com/dlx-go/dlx/core"

// Kind is the kind of stream that a [Number] names.
type Kind uint8

// The kinds.
const (
	// Default is the legacy default stream of CUDA and the default stream of ROCm. The
	// CPU has no streams; there it means that the data is ready when the call returns.
	Default Kind = iota
	// PerThreadDefault is the default stream of CUDA that each thread has of its own.
	PerThreadDefault
	// NoSync means that the producer need not wait, because the consumer keeps the
	// order itself.
	NoSync
	// Handle is a stream of the API, such as a cudaStream_t or a hipStream_t.
	Handle
)

var kindNames = [...]string{"default", "per_thread_default", "no_sync", "handle"}

// String returns the name of the kind, such as "no_sync".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Number is the stream on which a consumer of DLPack uses the data, as the argument stream
// of the method __dlpack__ in the Python array API standard. The producer makes its data
// safe to use on that stream.
type Number struct {
	Kind   Kind
	Handle uintptr // the stream if Kind is Handle, otherwise 0
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

// FromNone returns the meaning of stream=None in Python, which names no stream. It means
// the default stream on every type of device.
func FromNone() Number { return Number{Kind: Default} }

// FromDLPack returns the meaning of a number that a consumer passed for a device of type t.
// If the consumer passed no number, call [FromNone]. FromDLPack returns core.ErrInvalid for
// a number that the standard forbids: 0 on CUDA, where it could mean either default stream,
// any number on the CPU, and a number below -1 on any device. It returns
// core.ErrNotSupported for 1 and 2 on ROCm, and for types of devices for which the standard
// defines no numbers.
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

// ToDLPack returns the number that names n, for the producer of memory on a device of type
// t. If none is true, there is no such number, and a Python producer is passed None. This
// is the case for the kind Default on the CPU, and on types of devices for which the
// standard defines no numbers.
//
// ToDLPack returns core.ErrInvalid if n.Handle is one of the small numbers that stand for
// other kinds, or is not 0 although the kind is not Handle. It returns core.ErrNotSupported
// if t has no stream of that kind.
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
