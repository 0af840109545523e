package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

// Other memory may lie on the same page, in the same allocation, or before the address
// of a tensor. These cases check that a device does not change it.
var neighbourCases = []Case{
	{
		Name:  "map-host/one-page",
		Rule:  "core.HostMapper: host memory on the same page as mapped memory is copied to and from it like any other",
		Needs: core.CapMapHost,
		run:   caseMapHostOnePage,
	},
	{
		Name:  "host-view/other-part",
		Rule:  "core.HostViewer: a part of the view is copied to and from another part of the memory like any other host memory",
		Needs: core.CapHostView,
		run:   caseHostViewOtherPart,
	},
	{
		Name: "layout/before-the-handle",
		Rule: "dlpack.h DLTensor: the size of memory need not be known, and elements lie before its address where strides are negative",
		run:  caseBeforeTheHandle,
	},
	{
		Name: "layout/beside-pointers",
		Rule: "core.FromSlice: a slice may lie in a struct that has Go pointers",
		run:  caseBesidePointers,
	},
	{
		Name: "dlpack/reversed",
		Rule: "dlpack.h DLTensor: data is the address of the first element; a reversed tensor has the others before it",
		run:  caseDLPackReversed,
	},
	{
		Name:  "hammer/neighbours",
		Rule:  "core.HostMapper: many goroutines map small pieces of Go memory, on pages that they share with each other's and with memory that the garbage collector frees",
		Needs: core.CapMapHost,
		run:   caseHammerNeighbours,
	},
}

// mapped maps p and gives the memory as a uint8 tensor, which the caller closes, and
// which keeps p alive.
func (e *env) mapped(p []byte) (*core.Tensor, error) {
	host, err := core.FromSlice(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = host.Close() }()
	b, err := host.Buffer()
	if err != nil {
		return nil, err
	}
	m, err := as[core.HostMapper](e).MapHost(e.ctx, b)
	if err != nil {
		return nil, err
	}
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}

// streams are none, and one.
func (e *env) streams() []core.Stream { return []core.Stream{nil, e.stream()} }

// wantMoved copies between two uint8 tensors of one size, both ways, and proves what is in
// all then, in which their bytes begin at oneAt and otherAt.
func (e *env) wantMoved(what string, all []byte, one, other *core.Tensor, oneAt, otherAt int64) {
	e.Helper()
	n := one.NumElements()
	for _, s := range e.streams() {
		for _, way := range []struct {
			name         string
			dst, src     *core.Tensor
			dstAt, srcAt int64
		}{{"to the device", one, other, oneAt, otherAt}, {"from the device", other, one, otherAt, oneAt}} { // one is the device's
			copy(all, e.pattern(int64(len(all))))
			want := slices.Clone(all)
			copy(want[way.dstAt:way.dstAt+n], all[way.srcAt:])
			e.copy(s, way.dst, way.src)
			e.check(way.dst.WaitReady(e.ctx), "WaitReady")
			if !bytes.Equal(all, want) {
				e.Errorf("%s, %d bytes %s, stream %v: %s", what, n, way.name, s != nil, difference(all, want))
			}
		}
	}
}

func caseMapHostOnePage(e *env) {
	page := int64(os.Getpagesize())
	_, all := e.mappable(max(page, as[core.HostMapper](e).HostAlignment()), page)
	for _, at := range []struct{ host, mapped int64 }{{0, page / 2}, {page / 2, 0}, {16, page / 2}, {page / 2, page/2 - 300}} {
		for _, n := range []int64{1, 16, 300} {
			device, err := e.mapped(all[at.mapped:][:n])
			if err != nil { // the device maps whole pages only
				e.wantError(err, core.ErrInvalid, "MapHost of %d bytes", n)
				return
			}
			host := e.hostBytes(all[at.host:][:n:n])
			e.wantMoved(fmt.Sprintf("host memory at byte %d of a page, mapped memory at byte %d", at.host, at.mapped),
				all, device, host, at.mapped, at.host)
			_, _ = host.Close(), device.Close()
		}
	}
}

func caseHostViewOtherPart(e *env) {
	const half = 300 << 10 // more than what a device leaves to the host
	device := e.visible(e.pattern(2 * half))
	view, all := e.viewed(device)
	for _, at := range []struct{ host, device int64 }{{0, half}, {half, 0}} {
		for _, n := range []int64{16, 5000, half} {
			part := func(t *core.Tensor, at int64) *core.Tensor { return e.keep(t.Slice(0, at, at+n, 1)) }
			one, other := part(device, at.device), part(view, at.host)
			e.wantMoved(fmt.Sprintf("the view's bytes from %d on, the memory's from %d on", at.host, at.device),
				all, one, other, at.device, at.host)
			_, _ = one.Close(), other.Close()
		}
	}
}

// reversed are layouts of which elements lie before the first.
var reversed = []strided{
	{shape: []int64{9}, src: []int64{-1}},
	{shape: []int64{4, 1000}, src: []int64{-1000, 1}},
	{shape: []int64{4, 1000}, src: []int64{-1000, -1}},
	{shape: []int64{3, 5, 300}, src: []int64{-1600, 320, 1}},
	{shape: []int64{3, 5, 300}, src: []int64{1600, -320, 1}},
	{shape: []int64{20, 300}, src: []int64{-1, 20}},
	{shape: []int64{2000, 40}, src: []int64{-40, 1}},
}

// wantReversed copies reversed host tensors, as foreign makes them of an image, to the
// device and back.
func (e *env) wantReversed(foreign func(*image) *core.Tensor) {
	e.Helper()
	sizes := []uint16{1, 2, 3, 4, 8, 16, 24}
	if testing.Short() {
		sizes = []uint16{1, 3, 4}
	}
	for _, l := range reversed {
		for _, size := range sizes {
			if l.shape[0] >= 2000 && size != 4 {
				continue // it is there for its many rows, and takes long
			}
			t := core.DType{Code: typecode.UInt, Bits: 8, Lanes: size}
			host, device := e.newImage(t, 0, l.shape, l.src, 5), e.newImage(t, 0, l.shape, nil, 0)
			for _, s := range e.streams() {
				dst, src := e.onDevice(device), foreign(host)
				e.copy(s, dst, src)
				e.check(dst.WaitReady(e.ctx), "WaitReady")
				if got, want := e.memoryOf(dst), device.copied(host); !bytes.Equal(got, want) {
					e.Errorf("%v%v strides %v to the device, stream %v: %s", t, l.shape, l.src, s != nil, difference(got, want))
				}
				_, _ = dst.Close(), src.Close()

				want, back := host.copied(device), *host
				back.bytes = slices.Clone(host.bytes)
				dst, src = foreign(&back), e.onDevice(device)
				e.copy(s, dst, src)
				e.check(dst.WaitReady(e.ctx), "WaitReady")
				if !bytes.Equal(back.bytes, want) {
					e.Errorf("%v%v strides %v from the device, stream %v: %s", t, l.shape, l.src, s != nil, difference(back.bytes, want))
				}
				_, _ = dst.Close(), src.Close()
			}
		}
	}
}

func caseBeforeTheHandle(e *env) {
	e.wantReversed(func(m *image) *core.Tensor {
		base := e.onHost(m)
		spec := m.spec
		spec.Offset = 0
		return e.keep(core.Wrap(core.Memory{
			ID: core.CPU, Handle: e.address(base), Size: core.UnknownSize, Owner: core.FreeFunc(func() { _ = base.Close() }),
		}, spec))
	})
}

func caseBesidePointers(e *env) {
	x := &struct {
		pointer *int
		array   [3001]byte
	}{pointer: new(int)}
	host, content := e.hostBytes(x.array[:]), e.pattern(int64(len(x.array)))
	for _, s := range e.streams() {
		copy(x.array[:], content)
		device := e.bytes(int64(len(content)))
		e.copy(s, device, host)
		e.check(device.WaitReady(e.ctx), "WaitReady")
		clear(x.array[:])
		e.copy(s, host, device)
		e.check(host.WaitReady(e.ctx), "WaitReady")
		if !bytes.Equal(x.array[:], content) {
			e.Errorf("an array beside a pointer, stream %v: %s", s != nil, difference(x.array[:], content))
		}
	}
}

func caseDLPackReversed(e *env) {
	e.wantReversed(func(m *image) *core.Tensor {
		t := e.onHost(m)
		defer func() { _ = t.Close() }()
		return e.through(t)
	})
}

func caseHammerNeighbours(e *env) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	stop := make(chan struct{})
	collected := e.start(func() error {
		for {
			select {
			case <-stop:
				return nil
			default:
				runtime.GC()
			}
		}
	})
	// Half of the workers have Go memory of their own, the others pieces of the same two pages.
	const piece, pieces, workers = 64, 32, hammerWorkers / 2
	shared := make([]byte, workers*piece*pieces)
	var litter [hammerWorkers][16][]byte // of the sizes of the pieces, and soon to be collected
	e.hammer(func(w, r int) error {
		rng := rand.New(rand.NewPCG(e.cfg.Seed, uint64(w*hammerRounds+r)))
		s, err := e.dev.NewStream(e.ctx)
		if err != nil {
			return err
		}
		n := 80
		if testing.Short() {
			n = 10
		}
		for i := range n {
			for k := range litter[w] {
				litter[w][k] = make([]byte, 16+16*rng.IntN(12))
			}
			small := func() []byte {
				n := 1 + rng.IntN(piece)
				if w%2 == 0 {
					return make([]byte, 4*n)
				}
				at := (rng.IntN(pieces)*workers + w/2) * piece
				return shared[at : at+n : at+n]
			}
			on := s
			if i%2 == 0 {
				on = nil
			}
			if err := e.visit(on, rng, small); err != nil {
				return errors.Join(err, s.Close())
			}
		}
		return s.Close()
	})
	close(stop)
	e.check(e.finish(collected), "runtime.GC")
}

// visit maps a small piece of memory and copies another to it and back. Where the device
// maps whole pages only, nothing is left to be done.
func (e *env) visit(s core.Stream, rng *rand.Rand, small func() []byte) error {
	there, here := small(), small()
	if len(there) > 0 && len(here) > 0 && &there[0] == &here[0] {
		return nil
	}
	n := min(len(there), len(here))
	there, here = there[:n:n], here[:n:n]
	device, err := e.mapped(there)
	if errors.Is(err, core.ErrInvalid) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	host, err := core.FromSlice(here)
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }()
	for _, way := range []struct {
		dst, src *core.Tensor
		to, from []byte
	}{{device, host, there, here}, {host, device, here, there}} {
		for i := range way.from {
			way.from[i] = byte(rng.Uint32())
		}
		if err := e.dev.Copy(e.ctx, s, way.dst, way.src); err != nil {
			return err
		}
		if err := way.dst.WaitReady(e.ctx); err != nil {
			return err
		}
		if !bytes.Equal(way.to, way.from) {
			return fmt.Errorf("%v <- %v, stream %v: %s", way.dst, way.src, s != nil, difference(way.to, way.from))
		}
	}
	return nil
}
