//go:build webgpu && linux && cgo

package webgpu

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/webgpu/internal/faults"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// The parts of a copy, read and picked in memory of the host, move the same bytes as the copy, and read only what is there.
func TestPartsMoveTheSameBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	planned, stepped := 0, 0
	for range 1000 {
		c := copyplan.Copy{Elem: 1 + rng.Int64N(9)}
		dst := c.Elem
		for range rng.IntN(4) {
			a := copyplan.Axis{N: 2 + rng.Int64N(40), Dst: dst}
			dst *= a.N
			switch rng.IntN(6) {
			case 0: // repeated
			case 1:
				a.Src = rng.Int64N(20)
			case 2:
				a.Src = c.Elem
			case 3:
				a.Src = 4 * rng.Int64N(3000)
			default:
				r := c.Range()
				a.Src = r.SrcHigh - r.SrcLow + 4*rng.Int64N(4)
			}
			if rng.IntN(3) == 0 {
				a.Src = -a.Src
			}
			c.Axes = slices.Insert(c.Axes, 0, a)
		}
		c.Dst = rng.Int64N(9)
		c.Src = rng.Int64N(9) - c.Range().SrcLow
		r := c.Range()
		if r.SrcHigh > 4<<20 {
			continue
		}
		src := make([]byte, words(r.SrcHigh))
		for i := range src {
			src[i] = byte(rng.Uint32())
		}
		want, got := make([]byte, r.DstHigh), make([]byte, r.DstHigh)
		for to, from := range c.Pieces() {
			copy(want[to:][:c.Elem], src[from:])
		}
		list := picked(c, copyplan.Destination, int64(len(src)))
		for _, p := range list {
			if p.size > largest || p.size%unit != 0 {
				t.Errorf("%+v: %+v reads too much, or parts of words", c, p)
			}
			mapped := make([]byte, p.size)
			for to, from := range p.read.Pieces() {
				if (to|from|p.read.Elem)%unit != 0 {
					t.Errorf("%+v: %+v reads parts of words", c, p)
				}
				copy(mapped[to:][:p.read.Elem], src[from:])
			}
			if err := runCopy(uintptr(unsafe.Pointer(&got[0])), uintptr(unsafe.Pointer(&mapped[0])), p.pick); err != nil {
				t.Fatal(err)
			}
			runtime.KeepAlive(mapped)
			if len(p.read.Axes) > 0 {
				stepped++
			}
		}
		if len(list) > 0 && !bytes.Equal(got, want) {
			t.Fatalf("%+v: %+v moves other bytes", c, list)
		}
		if len(list) > 0 {
			planned++
		}
	}
	if planned < 100 || stepped < 20 {
		t.Errorf("%d copies are planned, and %d parts are read step by step", planned, stepped)
	}
}

// On a processor, the host makes strided copies within the device and to the host. The bytes are those that shaders move.
func TestTheHostPicksWhatShadersGather(t *testing.T) {
	d := openFaulty(t)
	if !d.cpu {
		t.Skip("shaders are fast: the device is a GPU")
	}
	if !d.picks {
		t.Error("shaders make strided copies on a processor")
	}
	keep := coretest.Keep(t)
	dispatches := slices.Index(faults.Calls(), "wgpuComputePassEncoderDispatchWorkgroups")
	const rows, columns, room = 600, 210, 128 << 10
	memory := func() *core.Tensor {
		return keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{2 * room}, core.AllocOptions{}))
	}
	view := func(x *core.Tensor, at int64, shape ...int64) *core.Tensor {
		return keep(keep(x.Slice(0, at, at+shape[0]*shape[1], 1)).Reshape(shape...))
	}
	contents := make([]byte, 2*room)
	for i := range contents {
		contents[i] = byte(i*7) + byte(i>>8)
	}
	whole := func(x *core.Tensor) []byte {
		all, err := core.ToSlice[byte](t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	from, other := memory(), memory()
	matrix := view(from, 3, rows, columns)
	for name, src := range map[string]*core.Tensor{
		"transposed":     keep(matrix.Transpose()),
		"columns":        keep(matrix.Slice(1, 1, columns, 4)),
		"backwards":      keep(keep(matrix.Slice(0, rows-1, -1, -1)).Slice(1, 0, columns, 5)),
		"repeated":       keep(keep(matrix.Slice(0, 5, 6, 1)).Broadcast(100, columns)),
		"another offset": keep(matrix.Slice(0, 2, rows, 1)),
	} {
		host := keep(keep(core.FromSlice(make([]byte, src.NumBytes()))).Reshape(src.Shape()[1], src.Shape()[0]))
		turned := keep(host.Transpose())
		for _, at := range []int64{0, 2, room, room + 2} {
			to := other
			if at >= room {
				to = from // one buffer
			}
			dst := view(to, at, src.Shape()...)
			var within, down [2][]byte
			for i, picks := range []bool{true, false} {
				d.picks = picks
				for _, x := range []*core.Tensor{from, to} {
					if err := d.Copy(t.Context(), nil, x, keep(core.FromSlice(contents))); err != nil {
						t.Fatal(err)
					}
				}
				if (at|src.NumBytes())%unit == 0 && picks {
					faults.Arm(dispatches, 1, false)
				}
				err := errors.Join(d.Copy(t.Context(), nil, dst, src), d.Copy(t.Context(), nil, turned, src))
				if faults.Disarm(dispatches) || err != nil {
					t.Fatalf("%s, to byte %d, by the host: %v: a shader, or an error: %v", name, at, picks, err)
				}
				within[i], down[i] = whole(to), whole(host)
			}
			if !bytes.Equal(within[0], within[1]) {
				t.Errorf("%s, to byte %d: the host copies other bytes than the shaders within the device", name, at)
			}
			if !bytes.Equal(down[0], down[1]) {
				t.Errorf("%s: the host copies other bytes than the shaders to the host", name)
			}
		}
	}
}

// A copy of several parts, within the device and to the host.
func TestTheHostPicksInSeveralParts(t *testing.T) {
	d := openFaulty(t)
	d.picks = true
	keep := coretest.Keep(t)
	const n = 2100 // n*n elements are more than a piece
	contents, want := make([]uint32, 2*n*n), make([]uint32, n*n)
	for i := range contents {
		contents[i] = uint32(i)
	}
	for i := range want {
		want[i] = uint32(2 * i)
	}
	empty := func(columns int64) *core.Tensor {
		return keep(core.Empty(t.Context(), d, core.TypeUint32, []int64{n, columns}, core.AllocOptions{}))
	}
	matrix, within, back := empty(2*n), empty(n), make([]uint32, n*n)
	columns := keep(matrix.Slice(1, 0, 2*n, 2))
	c, err := copyplan.Of(within, columns)
	if err != nil || len(picked(c, copyplan.Destination, 8*n*n)) < 2 {
		t.Fatalf("it is one part, or an error: %v", err)
	}
	err = errors.Join(
		d.Copy(t.Context(), nil, matrix, keep(keep(core.FromSlice(contents)).Reshape(n, 2*n))),
		d.Copy(t.Context(), nil, within, columns),
		d.Copy(t.Context(), nil, keep(keep(core.FromSlice(back)).Reshape(n, n)), columns),
	)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := core.ToSlice[uint32](t.Context(), within); err != nil || !slices.Equal(got, want) {
		t.Errorf("the copy within the device has other elements, error %v", err)
	}
	if !slices.Equal(back, want) {
		t.Error("the copy to the host has other elements")
	}
	kept := 0
	for _, usage := range []wgpu.Usage{wgpu.Readback, wgpu.Staging} {
		for _, b := range d.spares.free[usage] {
			if kept++; b.size > maxMapped {
				t.Errorf("a mapped buffer of %d bytes is kept", b.size)
			}
		}
	}
	if kept == 0 {
		t.Error("the staging buffers of the pieces are not kept")
	}
}

// The device itself makes an aligned copy within one buffer that is one move of bytes, in whatever order the elements are.
func TestAContiguousCopyWithinOneBufferIsTheDevices(t *testing.T) {
	d := openFaulty(t)
	d.picks = true
	keep := coretest.Keep(t)
	content := coretest.Pattern(4000, 3)
	x := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{2, 40, 50}, core.AllocOptions{}))
	host := keep(core.FromSlice(content, 2, 40, 50))
	half := func(i int64) *core.Tensor {
		return keep(keep(keep(x.Slice(0, i, i+1, 1)).Reshape(40, 50)).Transpose())
	}
	if err := d.Copy(t.Context(), nil, x, host); err != nil {
		t.Fatal(err)
	}
	calls := []int{slices.Index(faults.Calls(), "wgpuBufferMapAsync"), slices.Index(faults.Calls(), "wgpuComputePassEncoderDispatchWorkgroups")}
	for _, call := range calls {
		faults.Arm(call, 1, false)
	}
	err := d.Copy(t.Context(), nil, half(1), half(0))
	for _, call := range calls {
		if faults.Disarm(call) {
			t.Errorf("%s was called", faults.Calls()[call])
		}
	}
	got, errGot := core.ToSlice[byte](t.Context(), x)
	if err := errors.Join(err, errGot); err != nil || !bytes.Equal(got, append(slices.Clone(content[:2000]), content[:2000]...)) {
		t.Errorf("the copy has other bytes, or an error: %v", err)
	}
}

// If there is no memory to map, a shader makes a strided copy.
func TestWithoutMappedBuffersAShaderCopies(t *testing.T) {
	d := openFaulty(t)
	d.picks = true
	keep := coretest.Keep(t)
	content := coretest.Pattern(10000, 3)
	create := slices.Index(faults.Calls(), "wgpuDeviceCreateBuffer")
	for n := int64(1); n <= 2; n++ { // the buffer that is read, and the staging buffer
		src := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{100, 100}, core.AllocOptions{}))
		dst := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{100, 100}, core.AllocOptions{}))
		turned := keep(src.Transpose())
		if err := d.Copy(t.Context(), nil, src, keep(core.FromSlice(content, 100, 100))); err != nil {
			t.Fatal(err)
		}
		d.TrimPool()
		faults.Arm(create, n, true)
		err := d.Copy(t.Context(), nil, dst, turned)
		if !faults.Disarm(create) {
			t.Errorf("buffer %d was not made", n)
		}
		got, errGot := core.ToSlice[byte](t.Context(), dst)
		want, errWant := core.ToSlice[byte](t.Context(), turned)
		if err := errors.Join(err, errGot, errWant); err != nil || !bytes.Equal(got, want) {
			t.Errorf("without buffer %d: other bytes, or an error: %v", n, err)
		}
	}
}

// A copy of several parts to a buffer that ends within a word is refused before the first part is written.
func TestABufferThatEndsWithinAWordIsNotWrittenInPart(t *testing.T) {
	d := openFaulty(t)
	d.picks = true
	keep := coretest.Keep(t)
	const size = piece + 5
	b := made(t, d, wgpu.Memory, size)
	defer wgpu.ReleaseBuffer(b)
	imported := func() *core.Tensor {
		m, err := d.ImportPointer(uintptr(b), size, nil)
		if err != nil {
			t.Fatal(err)
		}
		return keep(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{size}}))
	}
	dst := imported()
	ones := keep(core.FromSlice(bytes.Repeat([]byte{1}, size)))
	const step = 6 // so that one part would read too much
	from := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{size * step}, core.AllocOptions{}))
	column := keep(from.Slice(0, 0, size*step, step))
	if err := d.Copy(t.Context(), nil, column, ones); err != nil {
		t.Fatal(err)
	}
	c, err := copyplan.Of(dst, column)
	if err != nil || len(picked(c, copyplan.Destination, size*step)) < 2 {
		t.Fatalf("it is one part, or an error: %v", err)
	}
	for name, src := range map[string]*core.Tensor{"from the host": ones, "within the device": column} {
		coretest.WantError(t, d.Copy(t.Context(), nil, dst, src), core.ErrNotSupported, name)
		got, err := core.ToSlice[byte](t.Context(), keep(imported().Slice(0, 0, piece, 1))) // dst keeps the error
		if err != nil || bytes.IndexByte(got, 1) >= 0 {
			t.Errorf("%s: something was written, or an error: %v", name, err)
		}
	}
}

// BenchmarkPick copies a transposed matrix within the device by shaders and by the host, by turns. The metric ratio is the time of the
// shaders by that of the host.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int64{16, 64, 1024} {
		b.Run(fmt.Sprintf("%dx%d", n, n), func(b *testing.B) {
			d := open(b).(*device)
			defer closeDevice(b, d)
			matrix := func() *core.Tensor {
				t, err := core.Empty(b.Context(), d, core.TypeFloat32, []int64{n, n}, core.AllocOptions{})
				if err != nil {
					b.Fatal(err)
				}
				return t
			}
			dst, src := matrix(), matrix()
			defer dst.Close()
			defer src.Close()
			turned, err := src.Transpose()
			if err != nil {
				b.Fatal(err)
			}
			defer turned.Close()
			var took [2]time.Duration
			byTurns := func() {
				for i, picks := range []bool{false, true} {
					d.picks = picks
					begin := time.Now()
					if err := d.Copy(b.Context(), nil, dst, turned); err != nil {
						b.Fatal(err)
					}
					took[i] += time.Since(begin)
				}
			}
			byTurns() // which compiles the shaders
			clear(took[:])
			b.SetBytes(2 * dst.NumBytes()) // both ways
			for b.Loop() {
				byTurns()
			}
			b.ReportMetric(float64(took[0])/float64(took[1]), "ratio")
		})
	}
}
