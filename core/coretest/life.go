package coretest

import (
	"context"
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// Life helps to write a function that uses devices whose calls may fail, such as
// [EachCall].Life. It collects errors and closes what was opened. The methods that make an
// object return nil on an error, so that the function can leave out what needs the object.
// Set Context before use.
type Life struct {
	Context context.Context
	errs    []error
	ends    []func() error
}

// OK collects err, if it is not nil, and reports whether it is nil.
func (l *Life) OK(err error) bool {
	if err != nil {
		l.errs = append(l.errs, err)
	}
	return err == nil
}

// Later makes End call end. End calls the functions in reverse order.
func (l *Life) Later(end func() error) { l.ends = append(l.ends, end) }

// Opened takes the results of a call that opens x, and reports whether it succeeded. If so,
// End closes x; if not, Opened collects the error.
func (l *Life) Opened(x interface{ Close() error }, err error) bool {
	if !l.OK(err) {
		return false
	}
	l.Later(x.Close)
	return true
}

// Device takes the results of a call that opens a device, as Opened does, and returns d, or
// nil on an error.
func (l *Life) Device(d core.Device, err error) core.Device {
	if !l.Opened(d, err) {
		return nil
	}
	return d
}

// Tensor takes the results of a call that makes a tensor, as Opened does, and returns x, or
// nil on an error.
func (l *Life) Tensor(x *core.Tensor, err error) *core.Tensor {
	if !l.Opened(x, err) {
		return nil
	}
	return x
}

// Stream takes the results of a call that opens a stream, as Opened does, and returns s, or
// nil on an error.
func (l *Life) Stream(s core.Stream, err error) core.Stream {
	if !l.Opened(s, err) {
		return nil
	}
	return s
}

// Wrap takes the results of a call that allocates memory, and returns a tensor of its bytes,
// which End closes. On an error it collects the error and returns nil.
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

// Copy copies src to dst on d, and reports whether that succeeded. It returns false, and does
// nothing, if d, dst or src is nil.
func (l *Life) Copy(d core.Device, s core.Stream, dst, src *core.Tensor) bool {
	return d != nil && dst != nil && src != nil && l.OK(d.Copy(l.Context, s, dst, src))
}

// End closes everything in reverse order and returns the collected errors, joined.
func (l *Life) End() error {
	for _, end := range slices.Backward(l.ends) {
		l.OK(end())
	}
	return errors.Join(l.errs...)
}
