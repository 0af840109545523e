package coretest

import (
	"context"
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// Life is what a test does with devices whose calls may fail, as for [EachCall]: it notes all
// errors, leaves out what needs what could not be made, and closes all that was. The zero
// value with a context is ready.
type Life struct {
	Context context.Context
	errs    []error
	ends    []func() error
}

// OK notes an error, and reports whether there is none.
func (l *Life) OK(err error) bool {
	if err != nil {
		l.errs = append(l.errs, err)
	}
	return err == nil
}

// Later has End call end, before all that was there before.
func (l *Life) Later(end func() error) { l.ends = append(l.ends, end) }

// Opened is whether x could be opened, which End closes then.
func (l *Life) Opened(x interface{ Close() error }, err error) bool {
	if !l.OK(err) {
		return false
	}
	l.Later(x.Close)
	return true
}

// Device is d, or nil where it could not be opened.
func (l *Life) Device(d core.Device, err error) core.Device {
	if !l.Opened(d, err) {
		return nil
	}
	return d
}

// Tensor is x, or nil where it could not be made.
func (l *Life) Tensor(x *core.Tensor, err error) *core.Tensor {
	if !l.Opened(x, err) {
		return nil
	}
	return x
}

// Stream is s, or nil where it could not be opened.
func (l *Life) Stream(s core.Stream, err error) core.Stream {
	if !l.Opened(s, err) {
		return nil
	}
	return s
}

// Wrap is m as a row of bytes, or nil where m could not be had.
func (l *Life) Wrap(m core.Memory, err error) *core.Tensor {
	if !l.OK(err) {
		return nil
	}
	x := l.Tensor(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}}))
	if x == nil {
		m.Free()
	}
	return x
}

// Copy has d copy from src to dst, and reports whether that worked. It fails where one of them is nil.
func (l *Life) Copy(d core.Device, s core.Stream, dst, src *core.Tensor) bool {
	return d != nil && dst != nil && src != nil && l.OK(d.Copy(l.Context, s, dst, src))
}

// End closes all, the latest first, and returns what was noted.
func (l *Life) End() error {
	for _, end := range slices.Backward(l.ends) {
		l.OK(end())
	}
	return errors.Join(l.errs...)
}
