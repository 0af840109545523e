//go:build gl && linux && cgo

package gl

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
)

// counted counts the calls that reach the context's thread.
func counted(t *testing.T, change func(*contextInfo)) (*device, *atomic.Int64) {
	t.Helper()
	d := opened(t, change)
	var calls atomic.Int64
	run := d.run
	d.run = func(ctx context.Context, f func()) error {
		calls.Add(1)
		return run(ctx, f)
	}
	return d, &calls
}

// rows makes n tensors of the device and n of the host, with contents that differ.
func rows(t *testing.T, d core.Device, n int) (device, host []*core.Tensor, contents [][]byte) {
	t.Helper()
	for i := range n {
		contents = append(contents, bytes.Repeat([]byte{byte(i + 1)}, 4096))
		device = append(device, row(t, d, 4096, core.AllocOptions{}))
		host = append(host, keep(t)(core.FromSlice(bytes.Clone(contents[i]))))
	}
	return device, host, contents
}

// However many copies a batch has, OpenGL is called once for each direction, and not at all where the host copies.
func TestABatchIsOneCall(t *testing.T) {
	for _, c := range []struct {
		name      string
		change    func(*contextInfo)
		ups, down int64
	}{{"by the host", asItIs, 0, 0}, {"by OpenGL", asGPU, 1, 1}} {
		t.Run(c.name, func(t *testing.T) {
			d, calls := counted(t, c.change)
			there, here, contents := rows(t, d, 100)
			_, back, _ := rows(t, d, 100)
			issued := d.issued.Load()
			if err := d.CopyBatch(t.Context(), nil, there, here); err != nil {
				t.Fatal(err)
			}
			if n := int64(d.issued.Load() - issued); n != c.ups {
				t.Errorf("commands were issued %d times for 100 uploads, want %d", n, c.ups)
			}
			before := calls.Load()
			if err := d.CopyBatch(t.Context(), nil, back, there); err != nil {
				t.Fatal(err)
			}
			if n := calls.Load() - before; n != c.down {
				t.Errorf("%d calls for 100 downloads, want %d", n, c.down)
			}
			for i, x := range back {
				got, err := core.ToSlice[byte](t.Context(), x)
				if err != nil || !bytes.Equal(got, contents[i]) {
					t.Errorf("tensor %d came back with other bytes, error %v", i, err)
				}
			}
		})
	}
}

// If the call for a batch fails, each of its tensors reports that.
func TestAllTensorsOfABatchReportAFailure(t *testing.T) {
	for direction, call := range []string{"glNamedBufferSubData", "glGetNamedBufferSubData"} {
		d := opened(t, asGPU)
		s, err := d.NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		there, here, _ := rows(t, d, 20)
		dst, src := there, here
		if direction == 1 {
			dst, src = here, there
		}
		failOnce(d, 1, gl.INVALID_OPERATION)
		if err := d.CopyBatch(t.Context(), s, dst, src); err != nil {
			t.Fatal(err)
		}
		for i, x := range dst {
			var typed *core.Error
			if err := x.WaitReady(t.Context()); !errors.As(err, &typed) || typed.Call != call {
				t.Errorf("%s: dst[%d]: error %v", call, i, err)
			}
		}
		if err := s.Close(); err == nil {
			t.Errorf("%s: the stream closed without an error", call)
		}
	}
}

// A buffer of freed memory serves the next allocation without a call, and is nobody's meanwhile.
func TestFreedBuffersAreUsedAgain(t *testing.T) {
	d, calls := counted(t, asItIs)
	alloc := func(size int64) core.Memory {
		m, err := d.Alloc(t.Context(), size, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := alloc(5000)
	first.Free()
	before := calls.Load()
	if second := alloc(5001); second.Handle != first.Handle || second.Size != 5001 {
		t.Errorf("got GL buffer %d of %d bytes, want %d of 5001", second.Handle, second.Size, first.Handle)
	} else {
		second.Free()
	}
	if made := calls.Load() - before; made != 0 {
		t.Errorf("%d calls for memory of the pool", made)
	}
	if _, err := d.ImportPointer(first.Handle, 100, nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("ImportPointer of a buffer in the pool: %v, want ErrInvalid", err)
	}
	large := alloc(2 * kept)
	large.Free()
	if s := d.PoolStats(); s.InUse != 0 || s.Cached > kept {
		t.Errorf("after a large buffer was freed: %+v", s)
	}
	d.TrimPool()
	if s := d.PoolStats(); s.Cached != 0 || len(d.kept) != 0 {
		t.Errorf("after TrimPool: %+v, and %d names", s, len(d.kept))
	}
	known := true
	if err := d.do(t.Context(), "glIsBuffer", func() { known = gl.IsBuffer(uint32(first.Handle)) }); err != nil || known {
		t.Errorf("the buffer is still there after TrimPool (error %v)", err)
	}
}

// The buffers of a context of the caller are deleted when their memory is freed.
func TestAWrappedContextHasNoPool(t *testing.T) {
	d, run := wrapped(t)
	defer closeDevice(t, d)
	if d.Properties().Capabilities.Has(core.CapPool) {
		t.Error("the device says that it has a pool")
	}
	m, err := d.Alloc(t.Context(), 5000, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.Free()
	next, err := d.Alloc(t.Context(), 5000, core.AllocOptions{}) // which deletes what was freed
	if err != nil {
		t.Fatal(err)
	}
	defer next.Free()
	run(func() {
		if m.Handle != next.Handle && gl.IsBuffer(uint32(m.Handle)) {
			t.Errorf("GL buffer %d is still there", m.Handle)
		}
	})
}
