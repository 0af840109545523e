package benchmarks

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// sharedMove is the longest that a move without a copy may take, in nanoseconds.
const sharedMove = 20e3

// pairCases measure exchange.To from each device to each other one.
func pairCases(ids ...core.DeviceID) []Case {
	var cases []Case
	for _, from := range ids {
		for _, to := range ids {
			if from == to {
				continue
			}
			ends := "exchange/" + from.Type.String() + "-" + to.Type.String()
			for _, size := range []int64{4 << 10, 1 << 20, 64 << 20} {
				cases = append(cases, Case{
					Name:        strings.Join([]string{ends, "warm", binarySize(size)}, "/"),
					Description: "a move without a copy, of memory that is open there, and its close",
					Target:      Target{Measure: Time, Limit: sharedMove},
					setup:       pairCase(from, to, func(p pair) (trial, error) { return p.warm(size) }),
				}, Case{
					Name:        strings.Join([]string{ends, "cold", binarySize(size)}, "/"),
					Description: "the same of new memory, whose allocation and release are off the clock",
					setup:       pairCase(from, to, func(p pair) (trial, error) { return p.cold(size) }),
				})
			}
			if from == core.CPU || to == core.CPU {
				continue // one copy is enough: see deviceCases
			}
			cases = append(cases, Case{
				Name:        strings.Join([]string{ends, "staged", binarySize(stagedSize)}, "/"),
				Description: "a move by two copies through the host, into new memory, as where nothing better works",
				Target:      Target{Measure: Speed, Limit: 0.9, Baseline: ownCopy},
				setup:       pairCase(from, to, pair.staged),
			})
		}
	}
	return cases
}

// pair is a way between two opened devices.
type pair struct {
	*env
	from, to core.Device
	stream   core.Stream // of to
}

func pairCase(from, to core.DeviceID, setup func(pair) (trial, error)) func(*env) (trial, error) {
	return func(e *env) (trial, error) {
		src, err := e.open(from)
		if err != nil {
			return trial{}, err
		}
		dst, err := e.open(to)
		if err != nil {
			return trial{}, err
		}
		s, err := e.stream(dst)
		if err != nil {
			return trial{}, err
		}
		return setup(pair{e, src, dst, s})
	}
}

// move takes t to the other device, in order with the stream there. Where that
// cannot be by the mechanisms that are allowed, the case is unsupported.
func (p pair) move(t *core.Tensor, allowed exchange.Options) (*core.Tensor, exchange.Report, error) {
	allowed.Stream = p.stream
	moved, report, err := exchange.To(p.ctx, t, p.to, allowed)
	var none *exchange.NoWayError
	if errors.As(err, &none) {
		err = core.Errorf(core.ErrNotSupported, "exchange", "To", "%s", whyNot(none, allowed))
	}
	return moved, report, err
}

// whyNot gives the reasons against the mechanisms that were allowed, without those
// that say no more than that the others were not.
func whyNot(none *exchange.NoWayError, allowed exchange.Options) string {
	asked := cmp.Or(allowed.Only, exchange.Map)
	var reasons []string
	for _, r := range none.Refused() {
		if r.Mechanism == asked {
			reasons = append(reasons, r.Reason)
		}
	}
	return strings.Join(reasons, "; ")
}

// share is move without a copy.
func (p pair) share(t *core.Tensor) (*core.Tensor, exchange.Report, error) {
	return p.move(t, exchange.Options{Copy: exchange.Never})
}

// shareable finds memory that the other device can use in place: plain memory, or
// such as is visible to the host or exported. It also returns the mechanism.
func (p pair) shareable(size int64) (core.AllocOptions, string, error) {
	kinds := []core.AllocOptions{{}, {HostVisible: true}}
	if e, ok := core.As[core.MemoryExporter](p.from); ok {
		for _, t := range e.ExportTypes() {
			kinds = append(kinds, core.AllocOptions{Export: t})
		}
	}
	var plain error // why plain memory does not do
	for _, kind := range kinds {
		src, err := p.source(size, kind)
		if err == nil {
			var t *core.Tensor
			var report exchange.Report
			t, report, err = p.share(src)
			_ = src.Close()
			if err == nil {
				return kind, report.Mechanism.String(), t.Close()
			}
		}
		plain = cmp.Or(plain, err)
	}
	return core.AllocOptions{}, "", plain
}

// source allocates memory of one kind.
func (p pair) source(size int64, kind core.AllocOptions) (*core.Tensor, error) {
	return core.Empty(p.ctx, p.from, core.TypeUint8, []int64{size}, kind)
}

func (p pair) warm(size int64) (trial, error) {
	size = p.bytes(size)
	kind, way, err := p.shareable(size)
	if err != nil {
		return trial{}, err
	}
	src, err := p.filled(p.from, core.TypeUint8, kind, size)
	if err != nil {
		return trial{}, err
	}
	first, _, err := p.share(src) // it is open from here on
	if _, err := p.keep(first, err); err != nil {
		return trial{}, err
	}
	return trial{way: way, own: repeat(func() error {
		t, _, err := p.share(src)
		if err != nil {
			return err
		}
		return t.Close()
	})}, nil
}

// cold moves memory that nobody has written to: to fill it, off the clock, would
// take far longer than what is measured.
func (p pair) cold(size int64) (trial, error) {
	size = p.bytes(size)
	kind, way, err := p.shareable(size)
	if err != nil {
		return trial{}, err
	}
	return trial{way: way, own: func(n int) (spent time.Duration, err error) {
		for range n {
			src, err := p.source(size, kind)
			if err != nil {
				return spent, err
			}
			start := time.Now()
			t, _, err := p.share(src)
			spent += time.Since(start)
			if err == nil {
				err = t.Close()
			}
			_ = src.Close()
			if err != nil {
				return spent, err
			}
		}
		return spent, nil
	}}, nil
}

// What copies through the host are compared with, all into memory that is as new.
const (
	ownCopy   = "its plain copy"        // of memory that the destination has
	twoCopies = "download, then upload" // the same two copies, whole and one after the other
)

const stagedSize = 64 << 20

func (p pair) staged() (trial, error) {
	size := p.bytes(stagedSize)
	src, err := p.filled(p.from, core.TypeUint8, core.AllocOptions{}, size)
	if err != nil {
		return trial{}, err
	}
	local, err := p.filled(p.to, core.TypeUint8, core.AllocOptions{}, size)
	if err != nil {
		return trial{}, err
	}
	host, err := p.device()
	if err != nil {
		return trial{}, err
	}
	between, err := p.tensor(host, core.TypeUint8, size)
	if err != nil {
		return trial{}, err
	}
	return trial{
		bytes: size,
		way:   exchange.Staged.String(),
		own: repeat(func() error {
			t, _, err := p.move(src, exchange.Options{Only: exchange.Staged})
			if err != nil {
				return err
			}
			return p.arrived(t)
		}),
		baselines: []baseline{
			{name: ownCopy, sample: repeat(func() error { return p.copyAnew(local) })},
			{name: twoCopies, sample: repeat(func() error {
				if err := p.from.Copy(p.ctx, nil, between, src); err != nil {
					return err
				}
				return p.copyAnew(between)
			})},
		},
	}, nil
}

// copyAnew has the destination copy src into memory that it allocates and frees.
func (p pair) copyAnew(src *core.Tensor) error {
	t, err := core.Empty(p.ctx, p.to, src.DType(), src.Shape(), core.AllocOptions{})
	if err != nil {
		return err
	}
	if err := p.to.Copy(p.ctx, p.stream, t, src); err != nil {
		_ = t.Close()
		return err
	}
	return p.arrived(t)
}

// arrived closes t after its elements have arrived.
func (p pair) arrived(t *core.Tensor) error { return errors.Join(t.WaitReady(p.ctx), t.Close()) }
