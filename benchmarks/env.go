package benchmarks

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
)

// env is what the setup of a case works with.
type env struct {
	ctx      context.Context
	registry *core.Registry
	small    bool
	numpy    *numpy

	withSimulated bool // simulated devices are measured, too
	simulated     bool // one was opened

	opened   map[core.DeviceID]core.Device
	cleanups []func()
}

// cleanup leaves f to be called when the case is done, the last one first.
func (e *env) cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *env) close() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}

// device opens the host for the time of the case.
func (e *env) device() (core.Device, error) { return e.open(core.CPU) }

// open opens a device, once, for the time of the case. One that is simulated is measured only
// if that is asked for, or in tests of the cases.
func (e *env) open(id core.DeviceID) (core.Device, error) {
	if d, ok := e.opened[id]; ok {
		return d, nil
	}
	d, err := e.registry.Open(e.ctx, id)
	if err != nil {
		return nil, err
	}
	if facts.Simulated(d.Properties()) {
		if !e.small && !e.withSimulated {
			_ = d.Close()
			return nil, core.Errorf(core.ErrNotSupported, "benchmarks", "open", "%v is a %s, which is measured only if that is asked for", id, d.Properties().Name)
		}
		e.simulated = true
	}
	e.cleanup(func() { _ = d.Close() }) // what is left open shows in the live counters
	if e.opened == nil {
		e.opened = make(map[core.DeviceID]core.Device)
	}
	e.opened[id] = d
	return d, nil
}

// stream opens a stream for the time of the case. If the device has a clock, it can time the stream.
func (e *env) stream(d core.Device) (core.Stream, error) {
	s, err := timedStream(e.ctx, d)
	if err == nil {
		e.cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// The bounds of a small tensor.
const (
	smallBytes  = 16 << 10
	smallExtent = 16
)

// bytes is a size, or a small one.
func (e *env) bytes(n int64) int64 {
	if e.small {
		return min(n, smallBytes)
	}
	return n
}

// shape is a shape, or a small one with as many axes.
func (e *env) shape(shape []int64) []int64 {
	shape = slices.Clone(shape)
	if e.small {
		for i := range shape {
			shape[i] = min(shape[i], smallExtent)
		}
	}
	return shape
}

// tensor allocates a row-major tensor of the host for the time of the case, and
// sets every byte: pages that were never written to are read faster than others.
func (e *env) tensor(d core.Device, dtype core.DType, shape ...int64) (*core.Tensor, error) {
	l, err := core.NewLayout(shape...)
	if err != nil {
		return nil, err
	}
	size, err := dtype.Size(l.NumElements(), false)
	if err != nil {
		return nil, err
	}
	raw, err := core.Empty(e.ctx, d, core.TypeUint8, []int64{size}, core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	content, err := core.Mutable[uint8](raw)
	if err != nil {
		return nil, err
	}
	fill(content, sentSeed)
	b, err := raw.Buffer()
	if err != nil {
		return nil, err
	}
	return e.keep(core.NewTensor(b, core.Spec{DType: dtype, Shape: shape}))
}

// filled is tensor on any device, whose elements come from the host.
func (e *env) filled(d core.Device, dtype core.DType, opts core.AllocOptions, shape ...int64) (*core.Tensor, error) {
	host, err := e.device()
	if err != nil {
		return nil, err
	}
	content, err := e.tensor(host, dtype, shape...)
	if err != nil {
		return nil, err
	}
	t, err := e.keep(core.Empty(e.ctx, d, dtype, shape, opts))
	if err != nil {
		return nil, err
	}
	return t, d.Copy(e.ctx, nil, t, content)
}

// keep closes a tensor when the case is done.
func (e *env) keep(t *core.Tensor, err error) (*core.Tensor, error) {
	if err == nil {
		e.cleanup(func() { _ = t.Close() })
	}
	return t, err
}
