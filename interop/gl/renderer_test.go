//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

var probe = sync.OnceValue(func() core.Probe { return New().Probe(context.Background()) })

// needDriver ends a test where there is no driver.
func needDriver(tb testing.TB) {
	tb.Helper()
	coretest.NeedDriver(tb, probe().Reason, "libegl1 and libgl1-mesa-dri")
}

// needSharing skips a test that shares memory with a device that is SwiftShader: it has no OpenGL, so its memory is that of
// another driver.
func needSharing(tb testing.TB, d core.Device) {
	tb.Helper()
	if d.Properties().UUID == core.UUID([]byte("SwiftShaderUUID\x00")) {
		tb.Skipf("%v shares memory with SwiftShader, which has no OpenGL", d.ID())
	}
}

// render runs f as a renderer: on a thread of its own where a context is current,
// which is wrapped, and closes the device. f must not end the test.
func render(t *testing.T, f func(*Loop, core.Device)) {
	t.Helper()
	needDriver(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		destroy, err := NewContext(0)
		if err != nil {
			t.Error(err)
			return
		}
		defer destroy()
		loop := NewLoop()
		d, err := Wrap(loop.Run)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() {
			if err := loop.Call(d.Close); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		f(loop, d)
	}()
	<-done
}

// newBuffer makes a buffer on the renderer's thread.
func newBuffer(content string) uint32 {
	var name uint32
	gl.CreateBuffers(1, &name)
	gl.NamedBufferData(name, len(content), gl.Ptr([]byte(content)), gl.DYNAMIC_DRAW)
	return name
}

func contentOf(name uint32, size int) string {
	p := make([]byte, size)
	gl.GetNamedBufferSubData(name, 0, size, gl.Ptr(p))
	return string(p)
}

func bytesOf(size int64) core.Spec { return core.Spec{DType: core.TypeUint8, Shape: []int64{size}} }

func TestABufferOfTheRendererIsATensor(t *testing.T) {
	render(t, func(loop *Loop, d core.Device) {
		name := newBuffer("drawn by the renderer")
		defer gl.DeleteBuffers(1, &name)
		buffer, err := Import(d, name, 21, bytesOf(21), nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer buffer.Close()
		got := make([]byte, 21)
		host, err := core.FromSlice(got)
		if err != nil {
			t.Error(err)
			return
		}
		defer host.Close()
		if err := loop.Call(func() error { return d.Copy(t.Context(), nil, host, buffer) }); err != nil {
			t.Error(err)
		}
		if string(got) != "drawn by the renderer" {
			t.Errorf("the tensor holds %q", got)
		}
		copy(got, "WRITTEN")
		if err := loop.Call(func() error { return d.Copy(t.Context(), nil, buffer, host) }); err != nil {
			t.Error(err)
		}
		if s := contentOf(name, 21); s != "WRITTENy the renderer" {
			t.Errorf("the buffer holds %q", s)
		}
	})
}

func TestATensorIsABufferOfTheRenderer(t *testing.T) {
	render(t, func(_ *Loop, d core.Device) {
		x, err := core.Empty(t.Context(), d, core.TypeFloat32, []int64{4, 4}, core.AllocOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		defer x.Close()
		row, err := x.Index(0, 2)
		if err != nil {
			t.Error(err)
			return
		}
		defer row.Close()
		name, offset, err := Name(row)
		if err != nil || offset != 32 || !gl.IsBuffer(name) {
			t.Errorf("Name: buffer %d, offset %d, error %v", name, offset, err)
		}
	})
}

func TestOtherGoroutinesUseTheContextWhileTheRendererPolls(t *testing.T) {
	render(t, func(loop *Loop, d core.Device) {
		var group sync.WaitGroup
		done := make(chan struct{})
		for range 4 {
			group.Go(func() {
				for range 20 {
					x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{1000}, core.AllocOptions{})
					if err != nil {
						t.Error(err)
						return
					}
					_ = x.Close()
				}
			})
		}
		go func() { group.Wait(); close(done) }()
		for {
			if err := loop.Poll(); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond): // a frame
			}
		}
	})
}

func TestImportLeavesTheOwnerToItsCallerOnFailure(t *testing.T) {
	render(t, func(_ *Loop, d core.Device) {
		name := newBuffer("sixteen bytes!!!")
		defer gl.DeleteBuffers(1, &name)
		told := 0
		owner := core.FreeFunc(func() { told++ })
		for _, c := range []struct {
			rule string
			name uint32
			size int64
			spec core.Spec
			want error
		}{
			{"no buffer", 54321, 16, bytesOf(16), core.ErrInvalid},
			{"more than the buffer has", name, 17, bytesOf(17), core.ErrInvalid},
			{"a spec that leaves the size", name, 16, bytesOf(17), core.ErrLayout},
		} {
			x, err := Import(d, c.name, c.size, c.spec, owner)
			if !errors.Is(err, c.want) || told != 0 {
				t.Errorf("%s: error %v, the owner was freed %d times", c.rule, err, told)
			}
			if err == nil {
				_ = x.Close()
			}
		}
		x, err := Import(d, name, 16, bytesOf(16), owner)
		if err != nil {
			t.Error(err)
			return
		}
		if _ = x.Close(); told != 1 {
			t.Errorf("the owner was freed %d times, want once", told)
		}
	})
}

func TestNameRefusesOtherTensors(t *testing.T) {
	host, err := core.FromSlice([]byte{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Name(host); !errors.Is(err, core.ErrDevice) {
		t.Errorf("a tensor of the host: %v", err)
	}
	_ = host.Close()
	if _, _, err := Name(host); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a closed tensor: %v", err)
	}
	render(t, func(_ *Loop, d core.Device) {
		none, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{0}, core.AllocOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		defer none.Close()
		if _, _, err := Name(none); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a tensor without memory: %v", err)
		}
	})
}
