//go:build vulkan && linux && cgo

package vulkan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
)

// The host's part of a stream comes behind work of the device on another stream,
// which was submitted and is not done.
func TestWorkOfTheHostWaitsForTheDeviceOnOtherStreams(t *testing.T) {
	d := opened(t)
	var streams [2]core.Stream
	for i := range streams {
		s, err := d.NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		streams[i] = s
	}
	const n = 32 << 20
	a, b := row(t, d, n, core.AllocOptions{}), row(t, d, n, core.AllocOptions{})
	got := make([]byte, n)
	host := keep(t)(core.FromSlice(got))
	for round := range uint64(4) {
		content := pattern(n, round)
		put(t, d, a, content)
		err := errors.Join(d.Copy(t.Context(), streams[0], b, a), d.Copy(t.Context(), streams[1], host, b), host.WaitReady(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, content) {
			t.Fatalf("round %d: the host read before the device had written", round)
		}
	}
}

// layouts are strided copies of more pieces than regions are used for.
var layouts = []struct {
	name  string
	shape []int64
	view  func(*core.Tensor) (*core.Tensor, error)
}{
	{"transposed", []int64{70, 90}, func(t *core.Tensor) (*core.Tensor, error) { return t.Permute(1, 0) }},
	{"every third", []int64{9000}, func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(0, 1, 9000, 3) }},
	{"reversed", []int64{3000}, func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(0, 2999, 0, -1) }},
	{"permuted", []int64{9, 11, 13, 3}, func(t *core.Tensor) (*core.Tensor, error) { return t.Permute(2, 0, 3, 1) }},
	{"a block of a cube", []int64{40, 50, 8}, func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(2, 3, 6, 1) }},
}

// The shader copies what the host's kernel copies, for every size of element.
func TestShaderAgainstTheHost(t *testing.T) {
	d := opened(t, separateMemory)
	for _, dtype := range []core.DType{core.TypeUint8, core.TypeFloat16, core.TypeFloat32, core.TypeFloat64, core.TypeComplex128} {
		for _, l := range layouts {
			t.Run(fmt.Sprintf("%v %s", dtype, l.name), func(t *testing.T) {
				shape := core.Spec{DType: dtype, Shape: l.shape}
				whole := keep(t)(core.Empty(t.Context(), d, dtype, l.shape, core.AllocOptions{}))
				n := whole.NumBytes()
				content := pattern(int(n), uint64(n))
				bytesOf := func(x *core.Tensor, n int64) *core.Tensor {
					b, err := x.Buffer()
					if err != nil {
						t.Fatal(err)
					}
					return keep(t)(core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{n}}))
				}
				put(t, d, bytesOf(whole, n), content)
				src := keep(t)(l.view(whole))
				dst := keep(t)(core.Empty(t.Context(), d, dtype, src.Shape(), core.AllocOptions{}))
				if err := d.Copy(t.Context(), nil, dst, src); err != nil {
					t.Fatal(err)
				}
				got := get(t, d, bytesOf(dst, dst.NumBytes()))

				host := keep(t)(core.FromSlice(content))
				hb, _ := host.Buffer()
				view := keep(t)(l.view(keep(t)(core.NewTensor(hb, shape))))
				want := rowMajor(view, content)
				if !bytes.Equal(got, want) {
					t.Error("the device's copy differs")
				}
				// And back: a strided destination, what lies between its elements stays.
				put(t, d, bytesOf(whole, n), make([]byte, n))
				if err := d.Copy(t.Context(), nil, src, dst); err != nil {
					t.Fatal(err)
				}
				back := make([]byte, n)
				if got := get(t, d, bytesOf(whole, n)); !bytes.Equal(got, scattered(view, back, want)) {
					t.Error("the device's copy to strided elements differs")
				}
			})
		}
	}
	if len(inner(d).pipelines) < 5 {
		t.Errorf("only %d shaders were used: %v", len(inner(d).pipelines), inner(d).pipelines)
	}
}

// Each shader is accepted by the driver and the validation layer, unless it needs a feature that the driver lacks.
func TestEveryShaderMakesAPipeline(t *testing.T) {
	d := inner(opened(t))
	for _, s := range gpucopy.Shaders() {
		_, err := d.pipeline(s)
		if !d.gatherLimits().Allows(s) {
			wantError(t, err, core.ErrNotSupported, s.String())
		} else if err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// elementOffsets gives the byte offset of each element of a view, in row-major order.
func elementOffsets(x *core.Tensor) []int64 {
	l := x.Layout()
	size := x.DType().ElementBits() / 8
	at := []int64{x.Offset()}
	for i := range l.Rank() {
		next := make([]int64, 0, int64(len(at))*l.Dim(i))
		for _, o := range at {
			for k := range l.Dim(i) {
				next = append(next, o+k*l.Stride(i)*size)
			}
		}
		at = next
	}
	return at
}

func rowMajor(x *core.Tensor, memory []byte) (out []byte) {
	size := x.DType().ElementBits() / 8
	for _, o := range elementOffsets(x) {
		out = append(out, memory[o:o+size]...)
	}
	return out
}

func scattered(x *core.Tensor, memory, elements []byte) []byte {
	size := x.DType().ElementBits() / 8
	for i, o := range elementOffsets(x) {
		copy(memory[o:o+size], elements[int64(i)*size:])
	}
	return memory
}

// Many goroutines allocate, copy, export, import, map and wait at once.
func TestHammer(t *testing.T) {
	for _, opts := range [][]option{nil, {separateMemory}} {
		d := opened(t, opts...)
		before := descriptors()
		var group sync.WaitGroup
		failed := make([]error, 8)
		for w := range failed {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(w), 1))
				for range 20 {
					if failed[w] = hammerOnce(d, rng); failed[w] != nil {
						return
					}
				}
			})
		}
		group.Wait()
		if err := errors.Join(failed...); err != nil {
			t.Error(err)
		}
		if now := descriptors(); now > before+2 { // the driver may have opened one or two for good
			t.Errorf("%d descriptors are open, %d were", now, before)
		}
	}
}

// hammerOnce sends bytes through a stream, exported memory and its import, and host memory that is mapped.
func hammerOnce(d core.Device, rng *rand.Rand) (err error) {
	ctx := context.Background()
	n := 1 + rng.Int64N(100_000)
	var tensors []*core.Tensor
	defer func() {
		for _, x := range tensors {
			_ = x.Close()
		}
	}()
	add := func(x *core.Tensor, e error) *core.Tensor {
		if err = errors.Join(err, e); e == nil {
			tensors = append(tensors, x)
		}
		return x
	}
	content, back := pattern(int(n), rng.Uint64()), make([]byte, n)
	shape := core.Spec{DType: core.TypeUint8, Shape: []int64{n}}
	src, dst := add(core.FromSlice(content)), add(core.FromSlice(back))
	x := add(core.Empty(ctx, d, core.TypeUint8, shape.Shape, core.AllocOptions{Export: core.HandleOpaqueFD}))
	s, e := d.NewStream(ctx)
	if err = errors.Join(err, e); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b, _ := x.Buffer()
	m, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		return err
	}
	memory, err := d.(core.MemoryImporter).ImportMemory(ctx, m)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	y := add(core.Wrap(memory, shape))
	z := dst // as the device maps it, if it can
	if mapper, ok := core.As[core.HostMapper](d); ok {
		hb, _ := dst.Buffer()
		if memory, err = mapper.MapHost(ctx, hb); err != nil {
			return err
		}
		z = add(core.Wrap(memory, shape))
	}
	if err = d.Copy(ctx, s, x, src); err != nil {
		return err
	}
	if err = x.WaitReady(ctx); err != nil { // y has an order of its own
		return err
	}
	if err = errors.Join(d.Copy(ctx, s, z, y), z.WaitReady(ctx)); err != nil {
		return err
	}
	if !slices.Equal(content, back) {
		return fmt.Errorf("%d bytes came back changed", n)
	}
	return nil
}
