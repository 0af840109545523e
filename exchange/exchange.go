package exchange

import (
	"context"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange/internal/opened"
)

// Copy says when bytes may be copied; the words are those of DLPack's copy argument.
type Copy uint8

// The values of [Options.Copy].
const (
	IfNeeded Copy = iota // share memory, or copy where that cannot be
	Never                // share memory or fail with core.ErrNotSupported
	Always               // a fresh copy that shares nothing with the source
)

var copyNames = [...]string{"if_needed", "never", "always"}

// String gives the word in lower case: "if_needed".
func (c Copy) String() string {
	if int(c) < len(copyNames) {
		return copyNames[c]
	}
	return "unknown"
}

// MarshalText makes a Copy print by name in JSON.
func (c Copy) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Mechanism is how a tensor gets to a device. A larger one costs more.
type Mechanism uint8

// The mechanisms, which the package's documentation explains. The zero value is none.
const (
	Alias  Mechanism = iota + 1 // the same memory, 0 bytes copied
	Map                         // the same memory, mapped, viewed or imported: 0 bytes copied
	Peer                        // one copy between devices of one backend
	Direct                      // one copy, by one of the two devices
	Staged                      // two copies, through the host
)

var mechanismNames = [...]string{"none", "alias", "map", "peer", "direct", "staged"}

// String gives the name: "alias".
func (m Mechanism) String() string {
	if int(m) < len(mechanismNames) {
		return mechanismNames[m]
	}
	return "unknown"
}

// MarshalText makes a mechanism print by name in JSON.
func (m Mechanism) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes. It fails with core.ErrInvalid for a
// name that is none.
func (m *Mechanism) UnmarshalText(text []byte) error {
	i := slices.Index(mechanismNames[:], string(text))
	if i < 0 {
		return core.Errorf(core.ErrInvalid, "exchange", "UnmarshalText", "%q is not the name of a mechanism", text)
	}
	*m = Mechanism(i)
	return nil
}

// Copies is how many times the mechanism copies each byte: 0 for those that share memory.
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

// Options say how a tensor is to be moved. The zero value is a good choice.
type Options struct {
	Copy Copy
	// Only, if not 0, is the one mechanism that may be used: for measurements.
	Only Mechanism
	// Stream, a stream of the destination, is where the tensor is used next: it waits
	// for the data, and copies that the destination makes run on it. With nil the
	// order travels with the tensor, whose Ready event says when it may be read.
	Stream core.Stream
	// SourceStream, a stream of the source's device, is where the source was written by
	// work that left no event on it. All work on SourceStream counts as a write of the
	// source. If both streams are set, devices that share a timeline semaphore keep the
	// order by it and the caller is not blocked.
	SourceStream core.Stream
	// Alloc is for the memory that is allocated on the destination where bytes are
	// copied. A tensor of the destination's own that lies in memory of another type
	// than Alloc.Type, or than the destination's own where that is 0, is copied:
	// pinned memory of CUDA moves to the card.
	Alloc core.AllocOptions
}

// To moves src to dst: it is [Plan] and [Route.Run] in one, and much cheaper
// than both if the memory was opened before.
//
// src stays the caller's and open. The caller closes the result, whose memory
// belongs to dst. Where it is shared, shape and strides are those of src and the
// memory of src lives at least as long; where it is copied, it is row-major (packed
// elements that are no whole bytes keep the strides of src). The result is read-only
// if src is, unless Options.Copy is Always.
//
// A copy may still run when To returns. If it fails then, the result's Ready event
// reports the error. To fails with ErrClosed if src is closed,
// ErrInvalid if an argument is nil or an option unknown, ErrDevice if a stream is
// of another device, ctx's error, the error of the work that wrote src if that
// failed, and where every way was refused with an error around [*NoWayError].
func To(ctx context.Context, src *core.Tensor, dst core.Device, o Options) (*core.Tensor, Report, error) {
	start := time.Now()
	m := move{call: "To", src: src, dst: dst, o: o}
	t, report, err := m.to(ctx)
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
