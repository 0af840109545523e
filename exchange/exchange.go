package exchange

import (
	"context"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange/internal/opened"
)

// Copy says whether a move may copy the elements. The values have the meaning of the
// argument copy of the method __dlpack__ in the Python array API standard.
type Copy uint8

// The values of [Options.Copy].
const (
	IfNeeded Copy = iota // share memory if possible, otherwise copy
	Never                // share memory, or fail with core.ErrNotSupported
	Always               // copy, so that the result shares no memory with the source
)

var copyNames = [...]string{"if_needed", "never", "always"}

// String returns the name, such as "if_needed".
func (c Copy) String() string {
	if int(c) < len(copyNames) {
		return copyNames[c]
	}
	return "unknown"
}

// MarshalText returns the same text as [Copy.String].
func (c Copy) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Mechanism is how a tensor gets to a device. A larger Mechanism costs more.
type Mechanism uint8

// The mechanisms. The package documentation describes them. 0 means that the tensor was not
// moved.
const (
	Alias  Mechanism = iota + 1 // the memory is used as it is
	Map                         // the memory is mapped or imported; nothing is copied
	Peer                        // one copy between two devices of one backend
	Direct                      // one copy, which one of the two devices makes
	Staged                      // two copies, through host memory
)

var mechanismNames = privateCore.MechanismNames()

// String returns the name, such as "alias".
func (m Mechanism) String() string {
	if int(m) < len(mechanismNames) {
		return mechanismNames[m]
	}
	return "unknown"
}

// MarshalText returns the same text as [Mechanism.String].
func (m Mechanism) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText parses the output of [Mechanism.MarshalText]. It returns core.ErrInvalid for
// anything else.
func (m *Mechanism) UnmarshalText(text []byte) error {
	i := slices.Index(mechanismNames, string(text))
	if i < 0 {
		return core.Errorf(core.ErrInvalid, "exchange", "UnmarshalText", "%q is not the name of a mechanism", text)
	}
	*m = Mechanism(i)
	return nil
}

// Copies returns how many times the mechanism copies each byte: 0, 1 or 2.
func (m Mechanism) Copies() int64 {
	switch m {
	case Peer, Direct:
		return 1
	case Staged:
		return 2
	default:
		return 0
	}
}

// Options controls how a tensor is moved. The zero value shares memory if possible.
type Options struct {
	// Copy says whether the elements may be copied.
	Copy Copy
	// Only, if not 0, is the only mechanism that may be used. It is for measurements.
	Only Mechanism
	// Stream, if not nil, is the stream of the destination that uses the result next. It
	// waits for the data, and a copy that the destination makes runs on it. If Stream is
	// nil, no stream waits yet; work that is enqueued on the result later waits for the
	// data (see [core.Tensor.Ready]).
	Stream core.Stream
	// SourceStream, if not nil, is a stream of the source's device, on which other code
	// writes the source without recording events. All work that was enqueued on it counts
	// as a write of the source. If Stream is set, too, and the two devices can share a
	// timeline semaphore, Stream waits for SourceStream, and the caller is not blocked.
	SourceStream core.Stream
	// Alloc is used to allocate the memory of a copy on the destination. A tensor of the
	// destination is also copied if its memory has another type than Alloc.Type, or than
	// the destination's own type if Alloc.Type is 0. A move to a CUDA device therefore
	// copies pinned memory into device memory.
	Alloc core.AllocOptions
	// Convert, if not nil, converts the elements on the way: see [Conversion]. The result is
	// always a row-major copy. A device converts if it can and that moves fewer bytes, or as
	// few; otherwise the host does, and [To] returns when it has. Options.Copy must not be
	// Never, and Options.Only must be 0.
	Convert *Conversion
	// Tracer, if not nil, is told when the move begins and ends.
	Tracer Tracer
}

// To moves src to dst. It does the same as [Plan] and [Route.Run], but is much faster if
// the memory is already open for dst.
//
// The caller still owns src, which stays open. The caller closes the result. If the result
// shares memory, it has the shape and the strides of src, keeps the memory of src alive,
// and is read-only if src is. If it is a copy, it is row-major. A copy of packed elements
// that are not whole bytes has the strides of src instead. A copy is read-only if src is,
// unless Options.Copy is Always.
//
// A copy may still be running when To returns. If it fails later, the event of the result
// reports the error; see [core.Tensor.Ready]. To returns
//
//   - core.ErrClosed if src is closed;
//   - core.ErrInvalid if an argument is nil or an option is not known;
//   - core.ErrDevice if a stream belongs to another device;
//   - ctx's error;
//   - the error of the last write to src;
//   - with Options.Convert, the errors of [core.ConvertScaled], and core.ErrNotSupported if
//     Options.Copy is Never;
//   - an error that wraps a [*NoWayError] if no way is possible.
func To(ctx context.Context, src *core.Tensor, dst core.Device, o Options) (*core.Tensor, Report, error) {
	if o.Tracer != nil {
		return traceTo(ctx, src, dst, o)
	}
	if o.Convert != nil {
		return (&move{call: "To", src: src, dst: dst, o: o}).toConverted(ctx)
	}
	start := time.Now()
	m := move{call: "To", src: src, dst: dst, o: o}
	t, report, err := m.to(ctx)
	m.count(&report, err)
	report.Duration = time.Since(start)
	return t, report, err
}

func (m *move) to(ctx context.Context) (*core.Tensor, Report, error) {
	if err := m.check(); err != nil {
		return nil, Report{}, err
	}
	if err := m.begin(ctx); err != nil {
		return nil, Report{}, err
	}
	defer m.release()
	t, a, err := m.warm()
	if t == nil && err == nil {
		cold := *m // which goes to the heap, as a move that is warm does not
		return cold.run(ctx, newPlan(&cold))
	}
	report := Report{From: m.from.ID, To: m.dst.ID(), Mechanism: a.taken.mechanism, account: a}
	if err == nil {
		t, err = m.finish(ctx, t, &report)
	}
	return t, report, err
}

// warm is a move for which nothing has to be planned: the memory is the destination's,
// or is open on it. It returns nil and no error if that is not so.
func (m *move) warm() (*core.Tensor, *account, error) {
	if o := &m.o; o.Copy == Always || o.Only != 0 || m.low >= m.high {
		return nil, nil, nil
	}
	if m.from.Device == m.dst {
		if m.from.ID.Type != m.wanted() {
			return nil, nil, nil
		}
		t, err := core.NewTensor(m.root, m.spec)
		return t, aliased, err
	}
	if m.low < 0 {
		return nil, nil, nil
	}
	e := cache.Find(opened.Key{Root: m.root, Device: m.dst, Size: m.size})
	if e == nil {
		return nil, nil, nil
	}
	a := e.How().(*account)
	t, err := e.Tensor(m.root, m.spec)
	return t, a, err
}

// aliased is the account of moves within a device, whose words name nothing.
var aliased = &account{plan: new(plan), taken: way{method: &useAsItIs}}
