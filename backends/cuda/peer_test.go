//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// peers opens two devices.
func peers(t *testing.T) (d, p core.Device) {
	t.Helper()
	d, p = opened(t), closedAtEnd(t, second(t))
	if err := d.(core.PeerCopier).CanPeer(p); err != nil {
		t.Fatal(err)
	}
	return d, p
}

func TestPeerCopiesOfEveryLayoutOnEitherStream(t *testing.T) {
	d, p := peers(t)
	copier := d.(core.PeerCopier)
	streams := map[string]core.Stream{"none": nil, "of the destination": newStream(t, d), "of the source": newStream(t, p)}
	for _, c := range []struct {
		rule             string
		dtype            core.DType
		shape, dst, src  []int64
		dstFrom, srcFrom int64
	}{
		{"contiguous", core.TypeUint8, []int64{1000}, nil, nil, 0, 0},
		{"at an offset", core.TypeInt16, []int64{100}, nil, nil, 100, 7},
		{"no elements", core.TypeUint8, []int64{0}, nil, nil, 0, 0},
		{"one element", core.TypeFloat64, []int64{}, nil, nil, 3, 0},
		{"rows", core.TypeUint8, []int64{10, 400}, []int64{500, 1}, []int64{450, 1}, 0, 0},
		{"slices", core.TypeUint8, []int64{3, 5, 400}, []int64{5000, 500, 1}, []int64{4500, 450, 1}, 0, 0},
		{"transposed", core.TypeFloat32, []int64{30, 40}, nil, []int64{1, 30}, 0, 0},
		{"backwards", core.TypeFloat32, []int64{50}, nil, []int64{-1}, 0, 49},
		{"repeated", core.TypeFloat32, []int64{50}, nil, []int64{0}, 0, 3},
		{"with gaps on both sides", core.TypeUint16, []int64{100}, []int64{3}, []int64{2}, 1, 0},
	} {
		for name, s := range streams {
			t.Run(c.rule+", stream "+name, func(t *testing.T) {
				size := c.dtype.ElementBits() / 8
				view := func(on core.Device, seed uint64, strides []int64, from int64) (whole, x *core.Tensor) {
					whole = row(t, on, 20000, core.AllocOptions{})
					put(t, on, whole, pattern(20000, seed))
					b := buffer(t, whole)
					return whole, keep(t)(core.NewTensor(b, core.Spec{DType: c.dtype, Shape: c.shape, Strides: strides, Offset: from * size}))
				}
				to, dst := view(d, 1, c.dst, c.dstFrom)
				_, src := view(p, 2, c.src, c.srcFrom)
				if err := copier.CopyPeer(t.Context(), s, dst, src, p); err != nil {
					t.Fatal(err)
				}
				hostView := func(seed uint64, strides []int64, from int64) (whole []byte, x *core.Tensor) {
					whole = pattern(20000, seed)
					b := buffer(t, keep(t)(core.FromSlice(whole)))
					return whole, keep(t)(core.NewTensor(b, core.Spec{DType: c.dtype, Shape: c.shape, Strides: strides, Offset: from * size}))
				}
				want, hostDst := hostView(1, c.dst, c.dstFrom)
				_, hostSrc := hostView(2, c.src, c.srcFrom)
				if err := coretest.CopyNaive(hostDst, hostSrc); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(get(t, d, to), want) {
					t.Error("wrong bytes were copied")
				}
			})
		}
	}
}

func TestPeerCopiesAreInOrderWithTheWorkOfTheirStream(t *testing.T) {
	sim := simulator(t)
	d, p := peers(t)
	for _, on := range []core.Device{d, p} {
		s := newStream(t, on)
		there, here := row(t, p, 4000, core.AllocOptions{}), row(t, d, 4000, core.AllocOptions{})
		columns := func(x *core.Tensor) *core.Tensor { // strides for which there is no single command
			return keep(t)(core.NewTensor(buffer(t, x), core.Spec{DType: core.TypeUint8, Shape: []int64{100, 40}, Strides: []int64{1, 100}}))
		}
		plain := func(x *core.Tensor) *core.Tensor {
			return keep(t)(core.NewTensor(buffer(t, x), core.Spec{DType: core.TypeUint8, Shape: []int64{100, 40}}))
		}
		writer := newStream(t, p)
		sim.Hold(true)
		content := pattern(4000, 3)
		if err := p.Copy(t.Context(), writer, there, keep(t)(core.FromSlice(content))); err != nil {
			t.Fatal(err)
		}
		if err := d.(core.PeerCopier).CopyPeer(t.Context(), s, plain(here), columns(there), p); err != nil {
			t.Fatal(err)
		}
		e, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		if done, _ := e.Done(); done {
			t.Error("the copy did not wait for what it reads")
		}
		if err := failed(libraryOf(t, on).context.Synchronize(s.Native())); err != nil { // runs only the work that this stream waits for
			t.Fatal(err)
		}
		if pending := buffer(t, here).Pending(); len(pending) > 0 {
			t.Errorf("%v: the work of the stream is done, but %d parts of the copy are not", on.ID(), len(pending))
		}
		sim.Hold(false)
		want := make([]byte, 4000)
		for i := range 100 {
			for k := range 40 {
				want[i*40+k] = content[i+100*k]
			}
		}
		if !bytes.Equal(get(t, d, here), want) {
			t.Errorf("%v: wrong bytes were copied", on.ID())
		}
	}
}

// The copy also waits for work of the stream that dlx does not know, such as that of other libraries.
func TestEveryPartOfAPeerCopyComesAfterTheWorkOfItsStream(t *testing.T) {
	d, p := peers(t)
	for _, on := range []core.Device{d, p} {
		s, writer := newStream(t, on), newStream(t, p)
		there, here := row(t, p, 4000, core.AllocOptions{}), row(t, d, 4000, core.AllocOptions{})
		address, err := there.Address()
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.(core.PointerImporter).ImportPointer(address, 4000, nil)
		if err != nil {
			t.Fatal(err)
		}
		unknown := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{4000}}))
		content := pattern(4000, 6)
		if err := p.Copy(t.Context(), writer, unknown, keep(t)(core.FromSlice(content))); err != nil {
			t.Fatal(err)
		}
		written, err := writer.Record()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(written); err != nil {
			t.Fatal(err)
		}
		backwards := keep(t)(core.NewTensor(buffer(t, there), core.Spec{DType: core.TypeUint8, Shape: []int64{4000}, Strides: []int64{-1}, Offset: 3999}))
		if err := d.(core.PeerCopier).CopyPeer(t.Context(), s, here, backwards, p); err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(content)
		slices.Reverse(want)
		if !bytes.Equal(get(t, d, here), want) {
			t.Errorf("on a stream of %v: the copy ran before earlier work of the stream", on.ID())
		}
	}
}

func TestCopyPeerTakesHostMemory(t *testing.T) {
	d, p := peers(t)
	copier := d.(core.PeerCopier)
	for _, place := range []core.DeviceType{core.DeviceCUDAHost, core.DeviceCUDAManaged} {
		for _, s := range []core.Stream{nil, newStream(t, d), newStream(t, p)} {
			host := row(t, p, 1000, core.AllocOptions{Type: place})
			there, here := row(t, p, 1000, core.AllocOptions{}), row(t, d, 1000, core.AllocOptions{})
			put(t, p, there, pattern(1000, 4))
			if err := copier.CopyPeer(t.Context(), s, host, there, p); err != nil {
				t.Fatal(err)
			}
			if err := copier.CopyPeer(t.Context(), s, here, host, p); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(get(t, d, here), pattern(1000, 4)) {
				t.Errorf("through memory of %v: wrong bytes", place)
			}
		}
	}
}

func TestADeviceOpenedTwiceIsItsOwnPeer(t *testing.T) {
	d, again := opened(t), opened(t)
	x, y := row(t, d, 1000, core.AllocOptions{}), row(t, again, 1000, core.AllocOptions{})
	put(t, again, y, pattern(1000, 5))
	if err := d.(core.PeerCopier).CopyPeer(t.Context(), nil, x, y, again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(get(t, d, x), pattern(1000, 5)) {
		t.Error("wrong bytes")
	}
}

func TestCopyPeerRefusesWhatItCannotDo(t *testing.T) {
	simulator(t)
	d, p := peers(t)
	copier := d.(core.PeerCopier)
	closed := open(t, 1)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	dst, src := row(t, d, 16, core.AllocOptions{}), row(t, p, 16, core.AllocOptions{})
	stranger := coretest.NewBackend(coretest.Options{})
	other, err := stranger.Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	otherStream, err := other.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer otherStream.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		rule     string
		ctx      context.Context
		s        core.Stream
		dst, src *core.Tensor
		peer     core.Device
		want     error
	}{
		{"no peer", t.Context(), nil, dst, src, nil, core.ErrDevice},
		{"a device of another backend", t.Context(), nil, dst, src, other, core.ErrDevice},
		{"a closed peer", t.Context(), nil, dst, src, closed, core.ErrClosed},
		{"both on this device", t.Context(), nil, dst, row(t, d, 16, core.AllocOptions{}), p, core.ErrDevice},
		{"the wrong way round", t.Context(), nil, src, dst, p, core.ErrDevice},
		{"a stream of another backend", t.Context(), otherStream, dst, src, p, core.ErrDevice},
		{"other shapes", t.Context(), nil, dst, row(t, p, 15, core.AllocOptions{}), p, core.ErrLayout},
	} {
		wantError(t, copier.CopyPeer(c.ctx, c.s, c.dst, c.src, c.peer), c.want, c.rule)
	}
	if err := copier.CopyPeer(ended, nil, dst, src, p); err != context.Canceled {
		t.Errorf("an ended context: %v", err)
	}
	wantError(t, copier.CanPeer(closed), core.ErrClosed, "CanPeer of a closed device")
}

// peersVariable says whether the simulated devices reach each other's memory.
const peersVariable = "DLX_GPUSIM_PEERS"

// "If peer-to-peer access is enabled [...], peer-to-peer memory copy between these two devices no longer needs to be
// staged through the host" (CUDA C++ Programming Guide): else the driver stages it.
func TestTheDriverCopiesBetweenDevicesThatCannotReachEachOther(t *testing.T) {
	sim := simulator(t)
	if os.Getenv(peersVariable) == "" {
		coretest.Child(t, t.Name(), peersVariable+"=0")(t)
		return
	}
	d, p := peers(t)
	for _, o := range []core.AllocOptions{{}, {Export: core.HandleOpaqueFD}, {Export: core.HandleDMABuf}, {Export: core.HandleIPC}} {
		dst, src := row(t, d, 6000, o), row(t, p, 6000, o)
		put(t, p, src, pattern(6000, 9))
		calls := sim.Count("cuMemcpyPeerAsync")
		if err := d.(core.PeerCopier).CopyPeer(t.Context(), nil, dst, src, p); err != nil {
			t.Fatal(err)
		}
		if sim.Count("cuMemcpyPeerAsync") != calls+1 {
			t.Error("the driver was not asked to copy")
		}
		if !bytes.Equal(get(t, d, dst), pattern(6000, 9)) {
			t.Errorf("memory for export as %v: wrong bytes", o.Export)
		}
	}
}

// Memory of another library is checked before the driver uses it. On a card a wrong address would end the context.
func TestCopyPeerVerifiesMemoryOfOtherLibraries(t *testing.T) {
	sim := simulator(t)
	d, p := peers(t)
	copier := d.(core.PeerCopier)
	dst, src := row(t, d, 64, core.AllocOptions{}), row(t, p, 64, core.AllocOptions{})
	unverified := func(on core.Device, address uintptr) *core.Tensor {
		return keep(t)(core.Wrap(core.Memory{ID: on.ID(), Handle: address, Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{64}}))
	}
	short := libraryOf(t, p).plain(63)
	put(t, p, src, pattern(64, 8))
	calls := sim.Count("cuMemcpyPeerAsync")
	for _, c := range []struct {
		rule     string
		dst, src *core.Tensor
		want     error
	}{
		{"an address of nothing", dst, unverified(p, 0x1000), core.ErrInvalid},
		{"an allocation that is too short", dst, unverified(p, short), core.ErrInvalid},
		{"memory of the other device to read", dst, unverified(p, addressOf(t, dst)), core.ErrDevice},
		{"memory of the other device to write", unverified(d, addressOf(t, src)), src, core.ErrDevice},
		{"pinned memory", dst, unverified(p, libraryOf(t, p).pinned(64)), core.ErrInvalid},
	} {
		wantError(t, copier.CopyPeer(t.Context(), nil, c.dst, c.src, p), c.want, c.rule)
	}
	if now := sim.Count("cuMemcpyPeerAsync"); now != calls {
		t.Errorf("%d of the copies reached the driver", now-calls)
	}
	if err := copier.CopyPeer(t.Context(), nil, unverified(d, addressOf(t, dst)), unverified(p, addressOf(t, src)), p); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(get(t, d, dst), pattern(64, 8)) {
		t.Error("wrong bytes")
	}
}
