//go:build gl && cuda && linux && cgo

package gl

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// needCUDASharing is needSharing for the first device of CUDA.
func needCUDASharing(t *testing.T) {
	t.Helper()
	b := cuda.New()
	if b.Probe(t.Context()).Reason != "" {
		return // renderWithCUDA needs it
	}
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	needSharing(t, d)
}

// renderWithCUDA is render with a device of CUDA and a stream of it.
func renderWithCUDA(t *testing.T, f func(loop *Loop, d core.Device, s core.Stream)) {
	t.Helper()
	b := cuda.New()
	coretest.NeedDriver(t, b.Probe(t.Context()).Reason, "the driver of an NVIDIA card, or let DLX_CUDA_LIBRARY name the simulated one (make gpusim)")
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close of %v: %v", d.ID(), err)
		}
	}()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var apart error
	render(t, func(loop *Loop, _ core.Device) {
		name := newBuffer("sixteen bytes!!!")
		shared, err := RegisterCUDA(loop.Run, d, name, ReadOnly)
		if err == nil {
			err = shared.Close()
		}
		gl.DeleteBuffers(1, &name)
		switch {
		case errors.Is(err, core.ErrDevice):
			apart = err
		case err != nil:
			t.Errorf("RegisterCUDA: %v", err)
		default:
			f(loop, d, s)
		}
	})
	if apart != nil { // Mesa's OpenGL beside a card, say
		coretest.NeedDriver(t, apart.Error(), "the card's driver for OpenGL")
	}
}

// register makes a buffer of the renderer with a content, and registers it. end deletes both.
func register(t *testing.T, loop *Loop, d core.Device, content string, access Access) (shared *CUDABuffer, name uint32, end func()) {
	t.Helper()
	name = newBuffer(content)
	shared, err := RegisterCUDA(loop.Run, d, name, access)
	if err != nil {
		t.Errorf("RegisterCUDA: %v", err)
	}
	return shared, name, func() {
		if err := shared.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		gl.DeleteBuffers(1, &name)
	}
}

// copied copies between a tensor of CUDA and bytes of the host, on s, without waiting.
func copied(t *testing.T, d core.Device, s core.Stream, p []byte, run func(host *core.Tensor) (dst, src *core.Tensor)) {
	t.Helper()
	host, err := core.FromSlice(p)
	if err != nil {
		t.Error(err)
		return
	}
	defer host.Close()
	dst, src := run(host)
	if err := d.Copy(context.Background(), s, dst, src); err != nil {
		t.Error(err)
	}
}

func received(t *testing.T, d core.Device, s core.Stream, x *core.Tensor) string {
	t.Helper()
	p := make([]byte, x.NumElements())
	copied(t, d, s, p, func(host *core.Tensor) (dst, src *core.Tensor) { return host, x })
	if err := s.Synchronize(context.Background()); err != nil {
		t.Error(err)
	}
	return string(p)
}

func TestABufferIsATensorOfCUDABetweenMapAndUnmap(t *testing.T) {
	renderWithCUDA(t, func(loop *Loop, d core.Device, s core.Stream) {
		shared, name, end := register(t, loop, d, "drawn by the renderer", ReadWrite)
		defer end()
		for _, text := range []string{"WRITTEN", "written"} {
			before := contentOf(name, 21)
			x, err := shared.Map(t.Context(), s, bytesOf(21))
			if err != nil {
				t.Error(err)
				return
			}
			if x.DeviceID() != d.ID() || x.Device() != d {
				t.Errorf("the tensor lies on %v", x.DeviceID())
			}
			if got := received(t, d, s, x); got != before {
				t.Errorf("CUDA reads %q, the buffer holds %q", got, before)
			}
			part, err := x.Slice(0, 0, 7, 1)
			if err != nil {
				t.Error(err)
				return
			}
			copied(t, d, s, []byte(text), func(host *core.Tensor) (dst, src *core.Tensor) { return part, host })
			_, _ = part.Close(), x.Close() // the work may be unfinished
			if err := shared.Unmap(t.Context(), s); err != nil {
				t.Error(err)
				return
			}
			if got := contentOf(name, 21); got != text+before[7:] {
				t.Errorf("the buffer holds %q after CUDA wrote %q", got, text)
			}
			gl.NamedBufferSubData(name, 8, 3, gl.Ptr([]byte("and")))
		}
	})
}

func TestUnmapWaitsForWorkOfOtherStreams(t *testing.T) {
	renderWithCUDA(t, func(loop *Loop, d core.Device, s core.Stream) {
		other, err := d.NewStream(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		defer other.Close()
		content := bytes.Repeat([]byte{1}, 1<<20)
		shared, name, end := register(t, loop, d, string(content), WriteDiscard)
		defer end()
		for i := range byte(5) {
			x, err := shared.Map(t.Context(), s, bytesOf(1<<20))
			if err != nil {
				t.Error(err)
				return
			}
			want := bytes.Repeat([]byte{i}, 1<<20)
			copied(t, d, other, want, func(host *core.Tensor) (dst, src *core.Tensor) { return x, host })
			_ = x.Close()
			if err := shared.Unmap(t.Context(), s); err != nil {
				t.Error(err)
				return
			}
			if contentOf(name, 1<<20) != string(want) {
				t.Error("the buffer was given back before the work on it was done")
			}
		}
	})
}

func TestOtherGoroutinesMapWhileTheRendererPolls(t *testing.T) {
	renderWithCUDA(t, func(loop *Loop, d core.Device, s core.Stream) {
		name := newBuffer("sixteen bytes!!!")
		defer gl.DeleteBuffers(1, &name)
		err := loop.Call(func() error {
			shared, err := RegisterCUDA(loop.Run, d, name, ReadOnly)
			if err != nil {
				return err
			}
			x, err := shared.Map(t.Context(), s, bytesOf(16))
			if err != nil {
				return errors.Join(err, shared.Close())
			}
			if got := received(t, d, s, x); got != "sixteen bytes!!!" || !x.ReadOnly() {
				t.Errorf("CUDA reads %q; read-only: %v", got, x.ReadOnly())
			}
			return errors.Join(x.Close(), shared.Unmap(t.Context(), s), shared.Close())
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// The simulator has the UUID of Mesa's software renderer, which has no EGL_NV_device_cuda.
func TestTheCUDADeviceOfAContext(t *testing.T) {
	needCUDASharing(t)
	renderWithCUDA(t, func(loop *Loop, d core.Device, _ core.Stream) {
		id, err := CUDADevice(t.Context(), loop.Run)
		if err != nil || id != d.ID() {
			t.Errorf("%v, error %v; want %v, which has registered a buffer of the context", id, err, d.ID())
		}
		if _, err := CUDADevice(t.Context(), nil); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("without run: error %v, want %q", err, core.ErrInvalid)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := CUDADevice(ended, loop.Run); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: error %v", err)
		}
		nowhere := func(f func()) { // a thread where no context is current
			done := make(chan struct{})
			go func() { defer close(done); f() }()
			<-done
		}
		if id, err := CUDADevice(t.Context(), nowhere); err == nil {
			t.Errorf("without a context of OpenGL: %v", id)
		}
	})
}

func TestRegisterCUDARefusesWhatIsNoBuffer(t *testing.T) {
	renderWithCUDA(t, func(loop *Loop, d core.Device, _ core.Stream) {
		name := newBuffer("sixteen bytes!!!")
		defer gl.DeleteBuffers(1, &name)
		host, err := core.FromSlice([]byte{1})
		if err != nil {
			t.Error(err)
			return
		}
		defer host.Close()
		nowhere := func(f func()) { // a thread where no context is current
			done := make(chan struct{})
			go func() { defer close(done); f() }()
			<-done
		}
		for _, c := range []struct {
			rule   string
			run    func(func())
			device core.Device
			name   uint32
			access Access
			want   error
		}{
			{"no run", nil, d, name, ReadWrite, core.ErrInvalid},
			{"no context", nowhere, d, name, ReadWrite, core.ErrInvalid},
			{"no device", loop.Run, nil, name, ReadWrite, core.ErrDevice},
			{"a device of the host", loop.Run, host.Device(), name, ReadWrite, core.ErrDevice},
			{"no buffer", loop.Run, d, 54321, ReadWrite, core.ErrInvalid},
			{"buffer 0", loop.Run, d, 0, ReadWrite, core.ErrInvalid},
			{"an access that there is not", loop.Run, d, name, WriteDiscard + 1, core.ErrInvalid},
		} {
			shared, err := RegisterCUDA(c.run, c.device, c.name, c.access)
			if !errors.Is(err, c.want) {
				t.Errorf("%s: error %v, want %q", c.rule, err, c.want)
			}
			if err == nil {
				_ = shared.Close()
			}
		}
	})
}

func TestACUDABufferIsUsedInItsOrder(t *testing.T) {
	renderWithCUDA(t, func(loop *Loop, d core.Device, s core.Stream) {
		shared, name, end := register(t, loop, d, "sixteen bytes!!!", ReadWrite)
		defer end()
		wants := func(rule string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", rule, err, want)
			}
		}
		_, err := shared.Map(t.Context(), nil, bytesOf(16))
		wants("Map without a stream", err, core.ErrDevice)
		wants("Unmap before Map", shared.Unmap(t.Context(), s), core.ErrInvalid)
		_, err = shared.Map(t.Context(), s, bytesOf(17))
		wants("Map of more than the buffer has", err, core.ErrLayout)
		wants("nothing is mapped by a failed Map", shared.Unmap(t.Context(), s), core.ErrInvalid)

		x, err := shared.Map(t.Context(), s, bytesOf(16))
		if err != nil {
			t.Error(err)
			return
		}
		_, err = shared.Map(t.Context(), s, bytesOf(16))
		wants("Map of a mapped buffer", err, core.ErrInvalid)
		wants("Unmap while a tensor is open", shared.Unmap(t.Context(), s), core.ErrInvalid)
		wants("Close of a mapped buffer", shared.Close(), core.ErrInvalid)
		wants("Close of the device", d.Close(), core.ErrInvalid)
		_ = x.Close()
		_, err = x.Buffer()
		wants("the tensor after Unmap", err, core.ErrClosed)
		wants("Unmap", shared.Unmap(t.Context(), s), nil)
		if got := contentOf(name, 16); got != "sixteen bytes!!!" {
			t.Errorf("the buffer holds %q", got)
		}
		wants("Close", shared.Close(), nil)
		wants("another Close", shared.Close(), nil)
		_, err = shared.Map(t.Context(), s, bytesOf(16))
		wants("Map after Close", err, core.ErrClosed)
		wants("Unmap after Close", shared.Unmap(t.Context(), s), core.ErrClosed)
	})
}

// run ends the context behind the driver's call: what Map undoes then it undoes nevertheless.
func TestAMapWhoseContextEndsLeavesNothingMapped(t *testing.T) {
	renderWithCUDA(t, func(loop *Loop, d core.Device, s core.Stream) {
		name := newBuffer("sixteen bytes!!!")
		defer gl.DeleteBuffers(1, &name)
		_ = loop.Call(func() error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := func() {}
			shared, err := RegisterCUDA(func(f func()) { loop.Run(f); end() }, d, name, ReadWrite)
			if err != nil {
				t.Error(err)
				return nil
			}
			end = cancel
			if _, err = shared.Map(ctx, s, bytesOf(17)); !errors.Is(err, core.ErrLayout) {
				t.Error(err)
			}
			if err := shared.Unmap(t.Context(), s); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("the buffer was still mapped: %v", err)
			}
			if err := shared.Close(); err != nil {
				t.Error(err)
			}
			return nil
		})
	})
}

func TestACUDABufferObeysItsContextWhileNobodyPolls(t *testing.T) {
	renderWithCUDA(t, func(loop *Loop, d core.Device, s core.Stream) {
		shared, _, end := register(t, loop, d, "sixteen bytes!!!", ReadWrite)
		defer end()
		asked := func(f func(context.Context) error) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- f(ctx) }()
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
			}
			if err := loop.Poll(); err != nil {
				t.Error(err)
			}
		}
		asked(func(ctx context.Context) error { _, err := shared.Map(ctx, s, bytesOf(16)); return err })
		x, err := shared.Map(t.Context(), s, bytesOf(16)) // it is not mapped
		if err != nil {
			t.Error(err)
			return
		}
		_ = x.Close()
		asked(func(ctx context.Context) error { return shared.Unmap(ctx, s) })
		if err := shared.Unmap(t.Context(), s); err != nil { // it is mapped
			t.Error(err)
		}
	})
}
