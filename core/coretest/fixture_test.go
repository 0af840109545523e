package coretest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

var errInjected = errors.New("injected")

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func wantEqual[T any](t *testing.T, got, want T, what string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func wantInjected(t *testing.T, err error, what string) {
	t.Helper()
	if !errors.Is(err, errInjected) {
		t.Errorf("%s: error %v, want the injected one", what, err)
	}
}

// errOf is the error of a call that gives something, too.
func errOf[T any](_ T, err error) error { return err }

// closed is the error of a call that opens something, or of closing what was opened.
func closed[T interface{ Close() error }](x T, err error) error {
	if err != nil {
		return err
	}
	return x.Close()
}

// freed is the error of a call that gives memory, which it frees.
func freed(m core.Memory, err error) error {
	m.Free()
	return err
}

// open opens a device that the test closes at its end.
func open(t *testing.T, b *Backend, index int32) core.Device {
	t.Helper()
	d, err := b.Open(t.Context(), core.DeviceID{Type: b.deviceType(), Index: index})
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func openDevice(t *testing.T, b *Backend, index int32) *Device {
	t.Helper()
	return open(t, b, index).(*Device)
}

// openStream opens a stream that the test closes at its end.
func openStream(t *testing.T, d *Device) *Stream {
	t.Helper()
	s, err := d.NewStream(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s.(*Stream)
}

// openSemaphore makes a semaphore that the test closes at its end.
func openSemaphore(t *testing.T, d *Device) core.Semaphore {
	t.Helper()
	m, err := d.NewSemaphore(t.Context(), 0)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func record(t *testing.T, s core.Stream) core.Event {
	t.Helper()
	e, err := s.Record()
	must(t, err)
	return e
}

func alloc(t *testing.T, d core.Device, size int64) core.Memory {
	t.Helper()
	m, err := d.Alloc(t.Context(), size, core.AllocOptions{})
	must(t, err)
	return m
}

// array makes a tensor of the slice in host memory, fresh one on the device.
func array[E core.Element](t *testing.T, s []E) *core.Tensor {
	t.Helper()
	return Keep(t)(core.FromSlice(s))
}

func fresh(t *testing.T, d core.Device, n int64) *core.Tensor {
	t.Helper()
	return Keep(t)(core.Empty(t.Context(), d, core.TypeInt32, []int64{n}, core.AllocOptions{}))
}

// wrap makes a host tensor of bytes.
func wrap(t *testing.T, b []byte, s core.Spec) *core.Tensor {
	t.Helper()
	return Keep(t)(core.NewTensor(bufferOf(t, array(t, b)), s))
}

// bufferOf gives the buffer of an open tensor.
func bufferOf(t *testing.T, x *core.Tensor) *core.Buffer {
	t.Helper()
	b, err := x.Buffer()
	must(t, err)
	return b
}

// goneBuffer gives the buffer of a tensor that was closed.
func goneBuffer(t *testing.T, x *core.Tensor) *core.Buffer {
	t.Helper()
	b := bufferOf(t, x)
	must(t, x.Close())
	return b
}

// nothing is work that does nothing.
func nothing() error { return nil }

// diary notes in what order work runs.
type diary struct{ strings.Builder }

func (d *diary) note(s string) func() error {
	return func() error { d.WriteString(s); return nil }
}

// hostOrder is a submission that lets the host wait for everything.
func hostOrder(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error {
	var buffers []*core.Buffer
	for _, t := range slices.Concat(writes, reads) {
		b, err := t.Buffer()
		if err != nil {
			return err
		}
		for _, e := range b.Pending() {
			if err := e.Wait(ctx); err != nil {
				return err
			}
		}
		buffers = append(buffers, b)
	}
	if err := enqueue(); err != nil {
		return err
	}
	e, err := s.Record()
	if err == nil {
		for _, b := range buffers {
			b.Wrote(e)
		}
	}
	return err
}

// failures keeps what a test is told.
type failures struct {
	testing.TB
	all []string
}
