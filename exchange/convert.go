package exchange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Conversion changes a tensor while it is moved: its element type, its numbers, and the order
// of its axes. Frames of shape (height, width, 3) and type uint8 become planes of float32,
// mirrored, with the mean subtracted and divided by the standard deviation, by
//
//	exchange.Conversion{
//		DType:  core.Float32,
//		Order:  []int{2, 0, 1},
//		Flip:   []int{2},
//		Scale:  []float32{1 / (255 * std[0]), 1 / (255 * std[1]), 1 / (255 * std[2])},
//		Offset: []float32{-mean[0] / std[0], -mean[1] / std[1], -mean[2] / std[2]},
//		Axis:   0,
//	}
//
// The order of the axes is changed first. Flip and Axis therefore name axes of the result.
// The numbers are converted and scaled as [core.Scaling] says, with the same bits wherever
// that is done. To take some of the channels, move a view: a Slice of the source.
type Conversion struct {
	// DType is the element type of the result. The zero value keeps that of the source.
	DType core.DType
	// Order says which axis of the source each axis of the result is, as core.Tensor.Permute
	// does. Nil keeps the order.
	Order []int
	// Flip lists axes of the result whose elements are in reverse order.
	Flip []int
	// Scale, Offset and Axis are those of [core.Scaling]. Axis is an axis of the result.
	Scale, Offset []float32
	Axis          int
}

func (c *Conversion) scaling() core.Scaling {
	return core.Scaling{Scale: c.Scale, Offset: c.Offset, Axis: c.Axis}
}

// view returns t with the axes of the result. The caller closes it.
func (c *Conversion) view(t *core.Tensor) (*core.Tensor, error) {
	v, err := t.Share()
	if err == nil && c.Order != nil {
		_ = v.Close()
		v, err = t.Permute(c.Order...)
	}
	for _, axis := range c.Flip {
		if err != nil {
			return nil, err
		}
		if axis < 0 || axis >= v.Rank() {
			err = core.Errorf(core.ErrInvalid, "exchange", "To", "Conversion.Flip names axis %d, and the result has %d axes", axis, v.Rank())
		} else if n := v.Layout().Dim(axis); n > 1 {
			var flipped *core.Tensor
			flipped, err = v.Slice(axis, n-1, -1, -1)
			_ = v.Close()
			v = flipped
			continue
		}
		if err != nil {
			_ = v.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// site is where the elements are converted.
type site uint8

const (
	onHost        site = iota
	atDestination      // after the tensor, or a copy of it, is there
	atSource           // before the result is moved
)

// converting is a move with a conversion.
type converting struct {
	*move
	view   *core.Tensor // the source with the axes of the result
	dtype  core.DType   // of the result
	bytes  int64        // of the result
	owner  core.Device  // of the source; nil if the host accesses it, or the device is not opened
	site   site
	report Report

	refused []Refusal // why devices do not convert
}

// beginConversion checks and plans a move with a conversion. The caller calls end.
func (m *move) beginConversion() (*converting, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	conversion := m.o.Convert
	if m.o.Copy == Never {
		return nil, core.Errorf(core.ErrNotSupported, "exchange", m.call, "a conversion copies, and Options.Copy is never")
	}
	if m.o.Only != 0 {
		return nil, core.Errorf(core.ErrInvalid, "exchange", m.call, "Options.Only and Options.Convert exclude each other: a conversion has its own way")
	}
	view, err := conversion.view(m.src)
	if err != nil {
		return nil, err
	}
	c := &converting{move: m, view: view, dtype: conversion.DType}
	if c.dtype == (core.DType{}) {
		c.dtype = m.src.DType()
	}
	if err := c.plan(); err != nil {
		_ = view.Close()
		return nil, err
	}
	return c, nil
}

func (c *converting) end() { _ = c.view.Close() }

// plan chooses where to convert, and describes it.
func (c *converting) plan() error {
	scaling := c.o.Convert.scaling()
	if err := scaling.Check(c.view.Shape()...); err != nil {
		return err
	}
	b, err := c.src.Buffer()
	if err != nil {
		return err
	}
	if c.bytes, err = c.dtype.Size(c.view.NumElements(), false); err != nil {
		return err
	}
	from, owner, to := c.src.DeviceID(), b.Memory().Device, c.dst.ID()
	if from.Type.HostAccessible() {
		owner = nil
	}
	c.owner = owner
	can := func(d core.Device) bool {
		err := c.canConvert(d, scaling)
		if err != nil {
			c.refuse(fmt.Sprintf("%v converts", d.ID()), err.Error())
		}
		return err == nil
	}
	less := c.bytes < c.src.NumBytes()
	switch {
	case c.wanted() != to.Type && !to.Type.HostAccessible():
		c.refuse(fmt.Sprintf("%v converts", to), fmt.Sprintf("Options.Alloc asks for memory of type %v", c.wanted()))
	case owner == c.dst && to == from:
		if can(c.dst) {
			c.site = atDestination
		}
	case owner != nil && less && can(owner):
		c.site = atSource
	case !to.Type.HostAccessible() && (!less || owner != nil) && can(c.dst):
		c.site = atDestination
	case owner != nil && !less && can(owner):
		c.site = atSource
	}
	c.describe(nil)
	return nil
}

// refuse notes why a device does not convert.
func (c *converting) refuse(what, reason string) {
	c.refused = append(c.refused, Refusal{Mechanism: Direct, What: what, Reason: reason})
}

// describe makes the report for the site. by is the device that converted instead of the host, in parts where only one
// side lies on it.
func (c *converting) describe(by core.Device) {
	from, owner, to := c.src.DeviceID(), c.owner, c.dst.ID()
	types := fmt.Sprintf("%v to %v", c.src.DType(), c.dtype)
	moved := []Step{}
	r := &c.report
	r.From, r.To, r.BytesCopied = from, to, c.bytes
	switch c.site {
	case onHost:
		r.Converted = core.CPU
		r.Mechanism = Direct
		what := fmt.Sprintf("the host converts %s, from memory of %v to memory of %v", types, from, to)
		switch {
		case by != nil:
			r.Converted = by.ID()
			what = fmt.Sprintf("%v converts %s, from memory of %v to memory of %v", by.ID(), types, from, to)
			if owner != c.dst {
				r.BytesCopied += c.src.NumBytes()
			}
		case owner != nil && !to.Type.HostAccessible():
			r.Mechanism, r.BytesCopied = Staged, c.bytes+c.src.NumBytes()
		}
		moved = append(moved, Step{What: what, Bytes: r.BytesCopied})
	case atDestination:
		r.Converted, r.Mechanism = to, Direct
		if owner != c.dst {
			moved = append(moved, Step{What: fmt.Sprintf("move the %s of %v to %v", c.src.DType(), from, to), Bytes: c.src.NumBytes()})
			r.BytesCopied += c.src.NumBytes()
		}
		moved = append(moved, Step{What: fmt.Sprintf("%v converts %s", to, types), Bytes: c.bytes})
	case atSource:
		r.Converted, r.Mechanism = from, Direct
		moved = append(moved,
			Step{What: fmt.Sprintf("%v converts %s", from, types), Bytes: c.bytes},
			Step{What: fmt.Sprintf("move the %v to %v", c.dtype, to), Bytes: c.bytes})
		r.BytesCopied += c.bytes
	}
	r.account = &account{plan: aliased.plan, converted: moved, notConverted: c.refused}
}

// canConvert returns nil if d converts, and better than the host.
func (c *converting) canConvert(d core.Device, scaling core.Scaling) error {
	k, ok := core.As[core.Converter](d)
	if !ok {
		p := d.Properties()
		return p.Require(core.CapConvert, "CanConvert")
	}
	if err := k.CanConvert(c.dtype, c.src.DType(), scaling); err != nil {
		return err
	}
	if k.PrefersHost() {
		return core.Errorf(core.ErrNotSupported, "exchange", "CanConvert", "%v is the host's processor, which converts faster without it", d.ID())
	}
	return nil
}

// run converts and moves. It returns a row-major tensor on the destination, which the caller closes.
func (c *converting) run(ctx context.Context) (*core.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.o.SourceStream != nil {
		if err := c.look(); err != nil {
			return nil, err
		}
		err := c.noteSourceStream(ctx)
		c.release()
		if err != nil {
			return nil, err
		}
	}
	scaling := c.o.Convert.scaling()
	if c.site != onHost {
		result, err := c.onDevice(ctx, scaling)
		if err == nil || !c.fallsBack(err) {
			return result, err
		}
	}
	result, err := c.on(ctx, c.dst, c.alloc())
	if err != nil {
		return nil, err
	}
	by, err := privateCore.ConvertBy(ctx, result, c.view, scaling)
	if err != nil {
		_ = result.Close()
		return nil, err
	}
	if by != nil {
		c.describe(by)
	}
	return result, nil
}

// fallsBack reports whether core is to convert after a device failed with err, as core.ConvertScaled does by itself: the
// device has no memory for the whole tensor, or finds only now that it does not support the conversion. It notes that in
// the report.
func (c *converting) fallsBack(err error) bool {
	if !errors.Is(err, core.ErrNotSupported) && !errors.Is(err, core.ErrOutOfMemory) {
		return false
	}
	from := c.src.DeviceID()
	if c.owner == nil && !from.Type.HostAccessible() {
		return false // core cannot copy from there
	}
	by := c.dst.ID()
	if c.site == atSource {
		by = from
	}
	c.refuse(fmt.Sprintf("%v converts the tensor, or moves it, as a whole", by), err.Error())
	c.site = onHost
	c.describe(nil)
	return true
}

// onDevice converts at the site, which is a device.
func (c *converting) onDevice(ctx context.Context, scaling core.Scaling) (*core.Tensor, error) {
	if c.site == atDestination {
		return c.converted(ctx, scaling)
	}
	near, err := c.on(ctx, c.view.Device(), core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	defer near.Close()
	if err := c.convertOn(ctx, c.view.Device(), near, c.view, scaling); err != nil {
		return nil, err
	}
	rest := c.rest()
	rest.o.Alloc = c.o.Alloc
	rest.src = near
	t, _, err := rest.to(ctx)
	return t, err
}

// converted moves the source to the destination and converts it there.
func (c *converting) converted(ctx context.Context, scaling core.Scaling) (*core.Tensor, error) {
	rest := c.rest()
	there, _, err := rest.to(ctx)
	if err != nil {
		return nil, err
	}
	defer there.Close() // its memory stays until it is converted
	view, err := c.o.Convert.view(there)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	result, err := c.on(ctx, c.dst, c.alloc())
	if err != nil {
		return nil, err
	}
	if err := c.convertOn(ctx, c.dst, result, view, scaling); err != nil {
		_ = result.Close()
		return nil, err
	}
	return result, nil
}

// rest is the move without the conversion, nor a stream that waits for it.
func (c *converting) rest() *move {
	m := *c.move
	m.o.Convert, m.o.SourceStream, m.o.Alloc, m.o.Copy = nil, nil, core.AllocOptions{}, IfNeeded
	return &m
}

// alloc returns the options for the memory of the result.
func (c *converting) alloc() core.AllocOptions {
	o := c.o.Alloc
	if o.Stream == nil {
		o.Stream = c.o.Stream
	}
	return o
}

// on allocates the result, row-major, on a device.
func (c *converting) on(ctx context.Context, d core.Device, o core.AllocOptions) (*core.Tensor, error) {
	return core.Empty(ctx, d, c.dtype, c.view.Shape(), o)
}

// convertOn has a device convert, on the stream on which it would copy.
func (c *converting) convertOn(ctx context.Context, d core.Device, dst, src *core.Tensor, scaling core.Scaling) error {
	k, ok := core.As[core.Converter](d)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "exchange", c.call, "%v does not convert any more", d.ID())
	}
	if err := privateCore.Present(d, src); err != nil {
		return err
	}
	return c.onStream(ctx, d, func(s core.Stream) error { return k.ConvertOn(ctx, s, dst, src, scaling) })
}

// toConverted is To with a conversion.
func (m *move) toConverted(ctx context.Context) (*core.Tensor, Report, error) {
	start := time.Now()
	c, err := m.beginConversion()
	if err != nil {
		privateCore.MoveFailed(err)
		return nil, Report{}, err
	}
	defer c.end()
	t, err := c.run(ctx)
	if err == nil {
		t, err = m.finish(ctx, t, &c.report)
	}
	r := c.report
	if err != nil {
		privateCore.MoveFailed(err)
		return nil, Report{From: r.From, To: r.To}, err
	}
	privateCore.Moved(r.From, r.To, int(r.Mechanism), c.bytes)
	r.Duration = time.Since(start)
	return t, r, nil
}

// planConverted is Plan with a conversion.
func (m *move) planConverted() (*Route, error) {
	c, err := m.beginConversion()
	if err != nil {
		return nil, err
	}
	defer c.end()
	r := &Route{From: c.report.From, To: c.report.To, Mechanism: c.report.Mechanism, move: *m, account: *c.report.account}
	r.bytes = c.report.BytesCopied
	return r, nil
}

// toAllConverted is ToAll with a conversion, one tensor at a time.
func toAllConverted(ctx context.Context, srcs []*core.Tensor, dst core.Device, o Options) (results []*core.Tensor, reports []Report, err error) {
	if err := (&move{call: "ToAll", dst: dst, o: o}).checkRest(); err != nil {
		return nil, nil, err
	}
	results, reports = make([]*core.Tensor, 0, len(srcs)), make([]Report, 0, len(srcs))
	for i, src := range srcs {
		t, r, err := (&move{call: "ToAll", src: src, dst: dst, o: o}).toConverted(ctx)
		if err != nil {
			for _, t := range slices.Backward(results) {
				_ = t.Close()
			}
			return nil, nil, fails(ctx, i, err)
		}
		results, reports = append(results, t), append(reports, r)
	}
	return results, reports, nil
}
