package backendtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Programs runs n random programs on a device. Their steps are allocations, releases, copies between views in
// every direction, conversions where the device has them, streams that are opened and closed, and events that streams and the host wait for.
// Programs runs the same steps in host memory, one after the other, and compares all results with these. The
// results must be the same, because work on a tensor happens in the order of the program, whichever streams
// it uses. A failure prints the steps of the program, and the seed that repeats it.
//
// A quick test ([coretest.Quick]) runs a quarter of the programs.
//
// After some programs, the device is closed and another one is opened. Of the options, Seed, Timeout (for each program) and
// Peer, whose device then takes part, apply.
func Programs(t *testing.T, open func(testing.TB) core.Device, n int, o Options) {
	if coretest.Quick() {
		n = (n + 3) / 4
	}
	cfg := newConfig(o)
	t.Logf("random programs are those of %s", seedText(cfg.Seed))
	for first := 0; first < n && !t.Failed(); first += programsOfDevice {
		t.Run(fmt.Sprintf("%d", first), func(t *testing.T) {
			before := core.Live()
			t.Cleanup(func() {
				if !t.Failed() {
					checkLive(t, before, cfg.Timeout)
				}
			})
			e := &env{TB: t, cfg: cfg}
			devices := []core.Device{e.open(open)}
			if cfg.Peer != nil {
				devices = append(devices, e.open(cfg.Peer))
			}
			for i := first; i < min(first+programsOfDevice, n) && !t.Failed(); i++ {
				runProgram(t, devices, cfg, uint64(i))
			}
		})
	}
}

// programsOfDevice is how many programs a device that was opened runs, one after the other.
const programsOfDevice = 250

const (
	mostSteps     = 40
	mostStreams   = 3
	mostVariables = 6
	mostExtent    = 12
)

// program is a random program that is being run.
type program struct {
	ctx     context.Context
	rng     *rand.Rand
	devices []core.Device
	streams []core.Stream
	vars    []*variable
	results []*variable // downloads that may be unfinished
	events  []core.Event
	steps   []string // what was done, for a failure
}

// variable is a tensor with what it is to hold. on is the device, nil for the host.
type variable struct {
	name   string
	on     core.Device
	tensor *core.Tensor
	model  *core.Tensor // in memory of the host, row-major
}

func (v *variable) close() {
	_ = v.tensor.Close()
	_ = v.model.Close()
}

// runProgram runs the program of an index, and fails tb if that did not do what it should.
func runProgram(tb testing.TB, devices []core.Device, cfg config, index uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Timeout)
	defer cancel()
	p := &program{ctx: ctx, rng: rand.New(rand.NewPCG(cfg.Seed, index)), devices: devices}
	err := p.execute()
	if err = cmp.Or(err, p.end()); err != nil {
		tb.Errorf("program %d of %s: %v\n%s", index, seedText(cfg.Seed), err, strings.Join(p.steps, "\n"))
	}
}

func (p *program) execute() error {
	kinds := []func() error{
		p.declare, p.declare, p.release, p.copy, p.copy, p.copy, p.copy, p.download, p.download,
		p.openStream, p.closeStream, p.record, p.waitOnStream, p.waitOnHost, p.synchronize, p.verify,
	}
	if slices.ContainsFunc(p.devices, converts) {
		kinds = append(kinds, p.convert, p.convert, p.convert)
	}
	for range 1 + p.rng.IntN(mostSteps) {
		if err := kinds[p.rng.IntN(len(kinds))](); err != nil {
			return fmt.Errorf("step %d: %w", len(p.steps), err)
		}
	}
	for _, v := range p.vars {
		if err := p.check(v); err != nil {
			return err
		}
	}
	return p.verify()
}

func converts(d core.Device) bool {
	_, ok := core.As[core.Converter](d)
	return ok
}

// end closes what is open.
func (p *program) end() error {
	var errs []error
	for _, v := range append(p.vars, p.results...) {
		v.close()
	}
	for _, s := range p.streams {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// note keeps what a step does.
func (p *program) note(format string, args ...any) {
	p.steps = append(p.steps, fmt.Sprintf("%3d  ", len(p.steps)+1)+fmt.Sprintf(format, args...))
}

// streamOf is a stream of a device, or none.
func (p *program) streamOf(d core.Device) (core.Stream, string) {
	if len(p.streams) > 0 && p.rng.IntN(4) > 0 {
		if i := p.rng.IntN(len(p.streams)); p.streams[i].Device() == d {
			return p.streams[i], fmt.Sprintf("stream %d", i)
		}
	}
	return nil, "no stream"
}

// declare makes a tensor of a device with random elements.
func (p *program) declare() error {
	if len(p.vars) >= mostVariables {
		return p.release()
	}
	types := []core.DType{core.TypeUint8, core.TypeUint16, core.TypeFloat32, core.TypeFloat64, core.TypeComplex128}
	dtype := types[p.rng.IntN(len(types))]
	shape := make([]int64, 1+p.rng.IntN(3))
	for i := range shape {
		shape[i] = 1 + p.rng.Int64N(mostExtent)
	}
	d := p.devices[p.rng.IntN(len(p.devices))]
	s, where := p.streamOf(d)
	v := &variable{name: fmt.Sprintf("v%d", len(p.steps)+1), on: d}
	p.note("%s := %v%v on %v by %s", v.name, dtype, shape, d.ID(), where)
	host, copied, err := p.random(dtype, shape)
	if err != nil {
		return err
	}
	defer host.Close()
	if v.tensor, err = core.Empty(p.ctx, d, dtype, shape, core.AllocOptions{Stream: s}); err != nil {
		_ = copied.Close()
		return err
	}
	v.model = copied
	p.vars = append(p.vars, v)
	return d.Copy(p.ctx, s, v.tensor, host)
}

// random makes a row-major tensor of the host, and another that is equal.
func (p *program) random(dtype core.DType, shape []int64) (one, other *core.Tensor, err error) {
	size, err := dtype.Size(elements(shape), false)
	if err != nil {
		return nil, nil, err
	}
	bytes := make([]byte, size)
	for i := range bytes {
		bytes[i] = byte(p.rng.Uint32())
	}
	if one, err = hostTensor(slices.Clone(bytes), dtype, shape); err == nil {
		if other, err = hostTensor(bytes, dtype, shape); err != nil {
			_ = one.Close()
		}
	}
	return one, other, err
}

// hostTensor is a row-major tensor over bytes.
func hostTensor(bytes []byte, dtype core.DType, shape []int64) (*core.Tensor, error) {
	raw, err := core.FromSlice(bytes)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	b, err := raw.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, core.Spec{DType: dtype, Shape: shape})
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, extent := range shape {
		n *= extent
	}
	return n
}

// release closes a tensor, which may have unfinished work.
func (p *program) release() error {
	if len(p.vars) == 0 {
		return nil
	}
	i := p.rng.IntN(len(p.vars))
	p.note("close %s", p.vars[i].name)
	p.vars[i].close()
	p.vars = append(p.vars[:i], p.vars[i+1:]...)
	return nil
}

// copy copies a view of one tensor into a view of another of the same type and rank.
func (p *program) copy() error {
	if len(p.vars) < 2 {
		return p.declare()
	}
	dst, src := p.vars[p.rng.IntN(len(p.vars))], p.vars[p.rng.IntN(len(p.vars))]
	if dst == src || dst.on != src.on || dst.tensor.DType() != src.tensor.DType() || dst.tensor.Rank() != src.tensor.Rank() {
		return nil
	}
	window := newWindow(p.rng, dst.tensor.Shape(), src.tensor.Shape())
	s, where := p.streamOf(dst.on)
	p.note("%s%s = %s%s by %s", dst.name, window.dst, src.name, window.src, where)
	return window.apply(dst.tensor, src.tensor, dst.model, src.model, func(dst, src *core.Tensor) error {
		return dst.Device().Copy(p.ctx, s, dst, src)
	}, coretest.CopyNaive)
}

// convert converts a view of one tensor into a view of another of the same rank.
func (p *program) convert() error {
	if len(p.vars) < 2 {
		return p.declare()
	}
	dst, src := p.vars[p.rng.IntN(len(p.vars))], p.vars[p.rng.IntN(len(p.vars))]
	scaling := core.Scaling{Scale: []float32{4*p.rng.Float32() - 2}, Offset: []float32{200*p.rng.Float32() - 100}}
	k, ok := core.As[core.Converter](dst.on)
	can := ok && dst != src && dst.on == src.on && dst.tensor.Rank() == src.tensor.Rank() &&
		k.CanConvert(dst.tensor.DType(), src.tensor.DType(), scaling) == nil
	if !can {
		return nil
	}
	window := newWindow(p.rng, dst.tensor.Shape(), src.tensor.Shape())
	s, where := p.streamOf(dst.on)
	p.note("%s%s = %s%s times %v plus %v by %s", dst.name, window.dst, src.name, window.src, scaling.Scale, scaling.Offset, where)
	return window.apply(dst.tensor, src.tensor, dst.model, src.model,
		func(dst, src *core.Tensor) error { return k.ConvertOn(p.ctx, s, dst, src, scaling) },
		func(dst, src *core.Tensor) error { return core.ConvertScaled(p.ctx, dst, src, scaling) })
}

// download copies a view of a tensor to the host. verify compares the result.
func (p *program) download() error {
	if len(p.vars) == 0 {
		return p.declare()
	}
	src := p.vars[p.rng.IntN(len(p.vars))]
	shape := src.tensor.Shape()
	host, model, err := p.random(src.tensor.DType(), shape)
	if err != nil {
		return err
	}
	v := &variable{name: fmt.Sprintf("h%d", len(p.steps)+1), tensor: host, model: model}
	p.results = append(p.results, v)
	window := newWindow(p.rng, shape, shape)
	s, where := p.streamOf(src.on)
	p.note("%s%s = %s%s by %s", v.name, window.dst, src.name, window.src, where)
	return window.apply(v.tensor, src.tensor, v.model, src.model, func(dst, src *core.Tensor) error {
		return src.Device().Copy(p.ctx, s, dst, src)
	}, coretest.CopyNaive)
}

// verify waits for the downloads and compares them.
func (p *program) verify() error {
	p.note("verify %d downloads", len(p.results))
	for _, v := range p.results {
		if err := v.tensor.WaitReady(p.ctx); err != nil {
			return err
		}
		if err := compare(v.name, v.tensor, v.model); err != nil {
			return err
		}
		v.close()
	}
	p.results = nil
	return nil
}

// check compares a tensor of a device with what it is to hold.
func (p *program) check(v *variable) error {
	host, other, err := p.random(v.tensor.DType(), v.tensor.Shape())
	if err != nil {
		return err
	}
	defer host.Close()
	defer other.Close()
	if err := v.on.Copy(p.ctx, nil, host, v.tensor); err != nil {
		return err
	}
	return compare(v.name, host, v.model)
}

// compare says how two tensors of the host differ.
func compare(name string, got, want *core.Tensor) error {
	a, err := hostBytesOf(got)
	if err != nil {
		return err
	}
	b, err := hostBytesOf(want)
	if err != nil {
		return err
	}
	if string(a) != string(b) {
		return fmt.Errorf("%s: %s", name, difference(a, b))
	}
	return nil
}

func hostBytesOf(t *core.Tensor) ([]byte, error) {
	address, err := t.Address()
	if err != nil {
		return nil, err
	}
	return bytesAt(address, t.NumBytes()), nil
}
