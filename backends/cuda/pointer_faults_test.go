//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// importingLife returns a program that imports memory of another library and of another process, and copies between
// devices.
func importingLife(t *testing.T) func(context.Context) error {
	l, second := libraryOf(t, opened(t)), libraryOf(t, opened(t, 1))
	foreign := []uintptr{l.plain(4096), l.mapped(4096).Address, l.pinned(4096), second.pinned(4096)}
	other := startExporter(t)
	return func(ctx context.Context) error {
		l := &crossing{Life: coretest.Life{Context: ctx}}
		l.d = l.Device(New().Open(ctx, core.DeviceID{Type: core.DeviceCUDA}))
		l.p = l.Device(New().Open(ctx, core.DeviceID{Type: core.DeviceCUDA, Index: 1}))
		if l.d != nil && l.p != nil {
			for _, address := range foreign {
				l.imports(address)
			}
			l.exports()
			l.opens(other.memory(other.sent.Left), other.event())
			l.copies(nil)
			l.copies(l.p)
		}
		return l.End()
	}
}

// crossing is a program with two devices.
type crossing struct {
	coretest.Life
	d, p core.Device
}

// row allocates a row of bytes on a device. It returns nil if that fails.
func (l *crossing) row(on core.Device, n int64, o core.AllocOptions) *core.Tensor {
	return l.Tensor(core.Empty(l.Context, on, core.TypeUint8, []int64{n}, o))
}

func (l *crossing) imports(address uintptr) {
	x := l.Wrap(l.d.(core.PointerImporter).ImportPointer(address, 1000, nil))
	l.Copy(l.d, nil, l.row(l.d, 1000, core.AllocOptions{}), x)
}

func (l *crossing) exports() {
	x := l.row(l.d, 1000, core.AllocOptions{Export: core.HandleIPC})
	if x == nil {
		return
	}
	b, err := x.Buffer()
	if !l.OK(err) {
		return
	}
	_, err = l.d.(core.MemoryExporter).ExportMemory(b, core.HandleIPC)
	l.OK(err)
	l.OK(l.d.(core.MemoryExporter).EndExport(b))
}

func (l *crossing) opens(m core.ExternalMemory, event core.ExternalEvent) {
	x := l.Wrap(l.d.(core.MemoryImporter).ImportMemory(l.Context, m))
	y, s := l.row(l.d, m.Length, core.AllocOptions{}), l.Stream(l.d.NewStream(l.Context))
	theirs, err := l.d.(core.IPCEventCreator).OpenIPCEvent(l.Context, event)
	if l.Opened(theirs, err) && s != nil {
		l.OK(theirs.WaitOn(s))
	}
	l.Copy(l.d, s, y, x)
	own, err := l.d.(core.IPCEventCreator).NewIPCEvent(l.Context)
	if l.Opened(own, err) && s != nil {
		l.OK(own.Record(s))
	}
}

// copies copies from l.p to l.d, on a stream of the device on.
func (l *crossing) copies(on core.Device) {
	dst, src := l.row(l.d, 8000, core.AllocOptions{}), l.row(l.p, 8000, core.AllocOptions{})
	if dst == nil || src == nil {
		return
	}
	var s core.Stream
	if on != nil {
		s = l.Stream(on.NewStream(l.Context))
	}
	view := func(x *core.Tensor, strides []int64) *core.Tensor {
		b, err := x.Buffer()
		l.OK(err)
		return l.Tensor(core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{20, 300}, Strides: strides}))
	}
	to := view(dst, nil)
	for _, strides := range [][]int64{{400, 1}, {300, 1}, {1, 20}} {
		l.OK(l.d.(core.PeerCopier).CopyPeer(l.Context, s, to, view(src, strides), l.p))
	}
}
