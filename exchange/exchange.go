package exchange

import (
	"context"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
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
	Direct                      // one copy, by the device of one side
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
		return core.Errorf(core.ErrInvalid, "exchange", "UnmarshalText", "%q is no mechanism", text)
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
	// From, a stream of the source's device, is where the source was written by work
	// that left no event on it. All work on From counts as a write of the source.
	// With From and Stream named, devices that share a timeline semaphore keep the
	// order by it and nobody is blocked.
	From core.Stream
	// Alloc is for the memory that is allocated on the destination where bytes are
	// copied. A tensor of the destination's own that lies in memory of another type
	// than Alloc.Type, or than the destination's own where that is 0, is copied:
	// pinned memory of CUDA moves to the card.
	Alloc core.AllocOptions
}

// Step is one thing that is done for a move.
type Step struct {
	What  string `json:"what"`
	Bytes int64  `json:"bytes"` // that it copies
}

// Refusal is a way that was not taken.
type Refusal struct {
	Mechanism Mechanism `json:"mechanism"`
	What      string    `json:"what"`
	Reason    string    `json:"reason"`
}

// Report tells how a tensor was moved. Its lists may be shared with other reports:
// they must not be changed.
type Report struct {
	From        core.DeviceID    `json:"from"` // where the source's memory lies
	To          core.DeviceID    `json:"to"`
	Mechanism   Mechanism        `json:"mechanism"`
	Steps       []Step           `json:"steps"`
	Refused     []Refusal        `json:"refused,omitempty"` // ways that rank better, and why they were not taken
	BytesCopied int64            `json:"bytes_copied"`      // each byte as often as it was copied
	Opened      bool             `json:"opened"`            // something was opened for this move; the next finds it open
	Wait        stream.Mechanism `json:"wait"`              // how Options.Stream waits for the data
	Duration    time.Duration    `json:"duration_ns"`       // until the call returned; copies may still run
}

// To moves src to dst: it is [Plan] and [Route.Run] in one, and much cheaper
// than both where the memory was opened before.
//
// src stays the caller's and open. The caller closes the result, whose memory
// belongs to dst. Where it is shared, shape and strides are those of src and the
// memory of src lives at least as long; where it is copied, it is row-major (packed
// elements that are no whole bytes keep the strides of src). The result is read-only
// if src is, unless Options.Copy is Always.
//
// Nothing waits for a copy: it may still run when To returns, and if it fails then,
// the result's Ready event tells. It fails with ErrClosed if src is closed,
// ErrInvalid if an argument is nil or an option unknown, ErrDevice if a stream is
// of another device, ctx's error, the error of the work that wrote src if that
// failed, and where every way was refused with an error around [*NoWayError].
func To(ctx context.Context, src *core.Tensor, dst core.Device, o Options) (*core.Tensor, Report, error) {
	start := time.Now()
	t, report, err := warm(ctx, src, dst, o)
	if t == nil && err == nil {
		var route *Route
		if route, err = Plan(src, dst, o); err == nil {
			t, report, err = route.run(ctx)
		}
	}
	report.Duration = time.Since(start)
	return t, report, err
}

// warm is [To] where nothing has to be planned: the memory is the destination's,
// or is open on it. It returns nil and no error where that is not so.
func warm(ctx context.Context, src *core.Tensor, dst core.Device, o Options) (*core.Tensor, Report, error) {
	m := move{src: src, dst: dst, o: o}
	if err := m.check("To"); err != nil || o.Copy == Always || o.Only != 0 || o.From != nil {
		return nil, Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, Report{}, err
	}
	root, err := m.look()
	if err != nil {
		return nil, Report{}, err
	}
	defer root.Release()
	report := Report{From: m.from.ID, To: dst.ID()}
	var t *core.Tensor
	var e *entry
	switch {
	case m.low >= m.high: // no elements
		return nil, Report{}, nil
	case m.from.Device == dst && m.from.ID.Type == m.wanted():
		report.Mechanism, report.Steps = Alias, aliasSteps
		t, err = core.NewTensor(root, m.spec)
	case m.low >= 0 && m.from.Device != dst:
		if e = opened.find(key{root, dst, m.size}); e == nil {
			return nil, Report{}, nil
		}
		report.Mechanism, report.Steps, report.Refused = e.way.mechanism, e.way.steps, e.refused
		t, err = e.tensor(root, m.spec)
	default:
		return nil, Report{}, nil
	}
	if err != nil {
		return nil, report, err
	}
	return m.finish(ctx, t, report)
}
