//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestEveryCallOfImportsAndPeersMayFail(t *testing.T) {
	sim := simulator(t)
	d, p := opened(t), opened(t, 1)
	l := libraryOf(t, d)
	foreign := []uintptr{l.plain(4096), l.mapped(4096).Address, l.pinned(4096)}
	other := startExporter(t)
	everyCallMayFail(t, sim, []string{
		"cuPointerGetAttributes", "cuMemGetAddressRange", "cuMemAlloc", "cuMemFree",
		"cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuIpcCloseMemHandle",
		"cuIpcGetEventHandle", "cuIpcOpenEventHandle", "cuEventCreate", "cuEventRecord", "cuEventDestroy", "cuStreamWaitEvent",
		"cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess", "cuMemcpyPeerAsync", "cuMemcpy3DPeerAsync",
		"cuStreamCreate", "cuStreamIsCapturing", "cuLaunchKernel",
	}, []core.Device{d, p}, func() error {
		a := life{ctx: context.Background(), d: d, p: p}
		for _, address := range foreign {
			a.imports(address)
		}
		a.exports()
		a.opens(other.given.Left, other.given.Event)
		a.copies(nil)
		a.copies(p)
		return a.end()
	})
}

// life does one thing after the other until one fails.
type life struct {
	ctx    context.Context
	d, p   core.Device
	opened []interface{ Close() error }
	err    error
}

// closes notes what to close at the end.
func (a *life) closes(x interface{ Close() error }, err error) {
	if a.err = err; err == nil {
		a.opened = append(a.opened, x)
	}
}

// end closes all, the latest first.
func (a *life) end() error {
	err := a.err
	for i := range a.opened {
		err = errors.Join(err, a.opened[len(a.opened)-1-i].Close())
	}
	return err
}

func (a *life) do(f func() error) {
	if a.err == nil {
		a.err = f()
	}
}

// row is a row of bytes on a device, nil after a failure.
func (a *life) row(on core.Device, n int64, o core.AllocOptions) (x *core.Tensor) {
	a.do(func() error {
		var err error
		x, err = core.Empty(a.ctx, on, core.TypeUint8, []int64{n}, o)
		a.closes(x, err)
		return err
	})
	return x
}

// wrapped is memory as a row of bytes.
func (a *life) wrapped(m core.Memory, err error) (x *core.Tensor) {
	a.do(func() error {
		if err != nil {
			return err
		}
		x, err = core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
		a.closes(x, err)
		return err
	})
	return x
}

func (a *life) stream(on core.Device) (s core.Stream) {
	a.do(func() error {
		var err error
		s, err = on.NewStream(a.ctx)
		a.closes(s, err)
		return err
	})
	return s
}

func (a *life) imports(address uintptr) {
	if a.err != nil {
		return
	}
	x := a.wrapped(a.d.(core.PointerImporter).ImportPointer(address, 1000, nil))
	y := a.row(a.d, 1000, core.AllocOptions{})
	a.do(func() error { return a.d.Copy(a.ctx, nil, y, x) })
}

func (a *life) exports() {
	x := a.row(a.d, 1000, core.AllocOptions{Export: core.HandleCUDAIPC})
	a.do(func() error {
		b, err := x.Buffer()
		if err != nil {
			return err
		}
		_, err = a.d.(core.MemoryExporter).ExportMemory(b, core.HandleCUDAIPC)
		return errors.Join(err, EndExport(b))
	})
}

func (a *life) opens(m core.ExternalMemory, event [64]byte) {
	if a.err != nil {
		return
	}
	x := a.wrapped(a.d.(core.MemoryImporter).ImportMemory(a.ctx, m))
	y := a.row(a.d, m.Length, core.AllocOptions{})
	s := a.stream(a.d)
	a.do(func() error {
		e, err := OpenIPCEvent(a.ctx, a.d, event)
		a.closes(e, err)
		if err != nil {
			return err
		}
		own, err := NewIPCEvent(a.ctx, a.d)
		a.closes(own, err)
		if err != nil {
			return err
		}
		return errors.Join(e.WaitOn(s), a.d.Copy(a.ctx, s, y, x), own.Record(s))
	})
}

// copies copies from the peer, on a stream of a device.
func (a *life) copies(on core.Device) {
	dst, src := a.row(a.d, 8000, core.AllocOptions{}), a.row(a.p, 8000, core.AllocOptions{})
	var s core.Stream
	if on != nil {
		s = a.stream(on)
	}
	for _, strides := range [][]int64{{400, 1}, {300, 1}, {1, 20}} {
		a.do(func() error {
			b, err := src.Buffer()
			if err != nil {
				return err
			}
			from, err := core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{20, 300}, Strides: strides})
			if err != nil {
				return err
			}
			defer from.Close()
			if b, err = dst.Buffer(); err != nil {
				return err
			}
			to, err := core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{20, 300}})
			if err != nil {
				return err
			}
			defer to.Close()
			return a.d.(core.PeerCopier).CopyPeer(a.ctx, s, to, from, a.p)
		})
	}
}
