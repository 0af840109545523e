//go:build linux && cgo

package cudaliketest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/staging"
)

// WholeLife opens a device, uses everything that it can do, and closes all that it opened.
func (k *Kit) WholeLife(ctx context.Context) error {
	l := &lifetime{Life: coretest.Life{Context: ctx}, kit: k}
	if l.device = l.Device(k.New().Open(ctx, core.DeviceID{Type: k.Type})); l.device != nil {
		l.run()
	}
	return l.End()
}

type lifetime struct {
	coretest.Life
	kit    *Kit
	device core.Device
}

// square allocates a matrix.
func (l *lifetime) square(o core.AllocOptions) *core.Tensor {
	return l.Tensor(core.Empty(l.Context, l.device, core.TypeFloat32, []int64{64, 64}, o))
}

func (l *lifetime) copy(s core.Stream, dst, src *core.Tensor) bool {
	return l.Copy(l.device, s, dst, src)
}

// roundTrip copies numbers to the device, through a kernel and back, and bytes through several staged pieces. If no
// call failed, the result must be right.
func (l *lifetime) roundTrip(s core.Stream) {
	const n = 64
	values, back := make([]float32, n*n), make([]float32, n*n)
	for i := range values {
		values[i] = float32(i)
	}
	from, to := l.Tensor(core.FromSlice(values, n, n)), l.Tensor(core.FromSlice(back, n, n))
	if a, b := l.square(core.AllocOptions{Stream: s}), l.square(core.AllocOptions{}); a != nil && b != nil {
		across := l.Tensor(a.Transpose())
		if l.copy(s, a, from) && l.copy(s, b, across) && l.copy(s, to, b) && l.OK(to.WaitReady(l.Context)) {
			for i, x := range back {
				if want := values[i%n*n+i/n]; x != want {
					l.OK(fmt.Errorf("no call failed, but element %d is %v, want %v", i, x, want))
					break
				}
			}
		}
	}
	sent, received := bytes.Repeat([]byte("staged "), staging.PieceBytes/7+2), make([]byte, (staging.PieceBytes/7+2)*7)
	in, out := l.Tensor(core.FromSlice(sent)), l.Tensor(core.FromSlice(received))
	many := l.Tensor(core.Empty(l.Context, l.device, core.TypeUint8, []int64{int64(len(sent))}, core.AllocOptions{}))
	if l.copy(s, many, in) && l.copy(s, out, many) && l.OK(out.WaitReady(l.Context)) && !bytes.Equal(sent, received) {
		l.OK(errors.New("no call failed, but the staged bytes have changed"))
	}
}

// batch copies many tensors at once: from pageable memory, within the device, and to pageable and pinned memory. If no
// call failed, the bytes must be right.
func (l *lifetime) batch(s core.Stream) {
	empty := func(o core.AllocOptions) *core.Tensor {
		return l.Tensor(core.Empty(l.Context, l.device, core.TypeUint8, []int64{100}, o))
	}
	for _, on := range []core.Stream{nil, s} {
		sent, received := []byte(fmt.Sprintf("%-100s", "to the device and back")), make([]byte, 100)
		in, out := l.Tensor(core.FromSlice(sent)), l.Tensor(core.FromSlice(received))
		a, b, c, pinned := empty(core.AllocOptions{}), empty(core.AllocOptions{}), empty(core.AllocOptions{}), empty(core.AllocOptions{Type: l.kit.Host})
		if a == nil || b == nil || c == nil || pinned == nil {
			return
		}
		for _, lists := range [][2][]*core.Tensor{{{a, b}, {in, in}}, {{c, pinned}, {a, b}}, {{out, a}, {c, pinned}}} {
			if !l.OK(l.device.(core.BatchCopier).CopyBatch(l.Context, on, lists[0], lists[1])) {
				return
			}
		}
		if l.OK(out.WaitReady(l.Context)) && !bytes.Equal(sent, received) {
			l.OK(errors.New("no call failed, but the bytes of a batch have changed"))
		}
	}
}

func (l *lifetime) run() {
	host := l.Tensor(core.FromSlice(make([]float32, 64*64), 64, 64))
	a, b := l.square(core.AllocOptions{}), l.square(core.AllocOptions{})
	pinned := l.square(core.AllocOptions{Type: l.kit.Host})
	var managed *core.Tensor
	if l.kit.Managed != 0 {
		managed = l.square(core.AllocOptions{Type: l.kit.Managed})
	}
	s := l.Stream(l.device.NewStream(l.Context))
	for _, on := range []core.Stream{nil, s} {
		l.copy(on, a, host)
		l.copy(on, pinned, a)
		if managed != nil {
			l.copy(on, managed, pinned)
		}
		l.copy(on, host, a)
		if a != nil && b != nil {
			across := l.Tensor(a.Transpose())
			l.copy(on, b, across)    // by a kernel
			l.copy(on, host, across) // packed by a kernel
			l.copy(on, l.Tensor(b.Slice(0, 0, 64, 2)), l.Tensor(a.Slice(0, 0, 64, 2)))
		}
	}
	if s != nil {
		l.boxes(s)
		l.convert(s)
		l.roundTrip(s)
		l.batch(s)
		l.order(s)
		l.time(s)
		l.marks(a, b)
	}
	l.share()
	l.peer(a)
}

// IntegratedLife maps host memory into a device that shares it.
func (k *Kit) IntegratedLife(ctx context.Context) error {
	l := &lifetime{Life: coretest.Life{Context: ctx}, kit: k}
	if l.device = l.Device(k.New().Open(ctx, core.DeviceID{Type: k.Type})); l.device != nil {
		host := l.Tensor(core.FromSlice(make([]float32, 64*64), 64, 64))
		b, err := host.Buffer()
		l.OK(err)
		if m, err := l.device.(core.HostMapper).MapHost(ctx, b); l.OK(err) {
			l.copy(nil, l.Tensor(core.Wrap(m, core.Spec{DType: core.TypeFloat32, Shape: []int64{64, 64}})), l.square(core.AllocOptions{}))
		}
	}
	return l.End()
}

// boxes copies boxes of three dimensions.
func (l *lifetime) boxes(s core.Stream) {
	var parts [2]*core.Tensor
	for i := range parts {
		whole := l.Tensor(core.Empty(l.Context, l.device, core.TypeFloat32, []int64{4, 10, 64}, core.AllocOptions{}))
		if whole == nil {
			return
		}
		parts[i] = l.Tensor(whole.Slice(1, int64(i), int64(i)+7, 2))
	}
	l.copy(s, parts[0], parts[1])
}

// convert converts pixels to planes, with and without a stream. If no call failed, the numbers must be right.
func (l *lifetime) convert(s core.Stream) {
	const n = 50
	pixels := make([]uint8, n*3)
	for i := range pixels {
		pixels[i] = uint8(i)
	}
	in := l.Tensor(core.FromSlice(pixels, n, 3))
	src := l.Tensor(core.Empty(l.Context, l.device, core.TypeUint8, []int64{n, 3}, core.AllocOptions{}))
	dst := l.Tensor(core.Empty(l.Context, l.device, core.TypeFloat32, []int64{3, n}, core.AllocOptions{}))
	scaling := core.Scaling{Scale: []float32{2, 3, 4}, Offset: []float32{-1}}
	for _, on := range []core.Stream{nil, s} {
		planes := make([]float32, 3*n)
		out := l.Tensor(core.FromSlice(planes, 3, n))
		if src == nil || dst == nil || !l.copy(on, src, in) ||
			!l.OK(l.device.(core.Converter).ConvertOn(l.Context, on, dst, l.Tensor(src.Transpose()), scaling)) ||
			!l.copy(on, out, dst) || !l.OK(out.WaitReady(l.Context)) {
			return
		}
		for i, x := range planes {
			if want := float32(pixels[i%n*3+i/n])*scaling.Scale[i/n] - 1; x != want {
				l.OK(fmt.Errorf("no call failed, but element %d is %v, want %v", i, x, want))
				break
			}
		}
	}
}

// order uses streams and events, and memory of the pool that a stream waits for.
func (l *lifetime) order(s core.Stream) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, native := range []uintptr{s.Native(), l.kit.Default} {
		if other := l.Stream(l.device.(core.StreamImporter).ImportStream(l.Context, native)); other != nil {
			l.OK(other.Synchronize(l.Context))
		}
	}
	other := l.Stream(l.device.NewStream(l.Context))
	if e, err := s.Record(); l.OK(err) && other != nil {
		l.OK(other.Wait(e))
		l.OK(e.Wait(l.Context))
	}
	if x, err := core.Empty(l.Context, l.device, core.TypeFloat32, []int64{10_000}, core.AllocOptions{}); l.OK(err) {
		l.OK(l.device.Copy(l.Context, s, x, x))
		l.OK(x.Close())
	}
	if other != nil {
		l.Tensor(core.Empty(l.Context, l.device, core.TypeFloat32, []int64{10_000}, core.AllocOptions{Stream: other}))
	}
	l.OK(s.Synchronize(l.Context))
}

// nativeStream is a stream that exchanges events with other libraries.
type nativeStream interface {
	core.Stream
	RecordNative() (event uintptr, release func(), err error)
	WaitNative(event uintptr) error
}

// NativeEventsLife lets a stream wait for an event that another library got from a second stream. If no call failed, the
// order must be right.
func (k *Kit) NativeEventsLife(ctx context.Context) error {
	l := &lifetime{Life: coretest.Life{Context: ctx}, kit: k}
	if l.device = l.Device(k.New().Open(ctx, core.DeviceID{Type: k.Type})); l.device != nil {
		l.nativeEvents()
	}
	return l.End()
}

func (l *lifetime) nativeEvents() {
	from, to := l.Stream(l.device.NewStream(l.Context)), l.Stream(l.device.NewStream(l.Context))
	host := l.Tensor(core.FromSlice(make([]float32, 64*64), 64, 64))
	there := l.square(core.AllocOptions{})
	if from == nil || to == nil || !l.copy(from, there, host) {
		return
	}
	event, release, err := from.(nativeStream).RecordNative()
	if !l.OK(err) {
		if event != 0 || release != nil {
			l.OK(errors.New("RecordNative failed, but returned an event"))
		}
		return
	}
	defer release()
	defer release() // does nothing
	if !l.OK(to.(nativeStream).WaitNative(event)) || !l.OK(to.Synchronize(l.Context)) {
		return
	}
	pending := there.Ready()
	if pending != nil {
		pending = there.Ready() // a query that failed has not said that the work is done
	}
	if pending != nil && l.OK(pending.Wait(l.Context)) { // the query may have found that the device is lost, as Wait then says
		l.OK(errors.New("no call failed, but the stream did not wait"))
	}
}

func (l *lifetime) time(s core.Stream) {
	timer, err := l.kit.NewTimer(l.Context, l.device)
	if l.Opened(timer, err) && l.OK(timer.Start(s)) && l.OK(timer.Stop(s)) {
		_, err := timer.Elapsed(l.Context)
		l.OK(err)
	}
}

// marks measures a copy by the device's clock.
func (l *lifetime) marks(a, b *core.Tensor) {
	clock := l.device.(core.DeviceClock)
	s := l.Stream(clock.NewTimedStream(l.Context))
	if s == nil {
		return
	}
	mark := func() core.Mark {
		m, err := clock.Mark(s)
		if !l.Opened(m, err) {
			return nil
		}
		return m
	}
	early := mark()
	if early != nil {
		l.OK(early.Close())
	}
	start := mark()
	l.copy(s, a, b)
	if end := mark(); start != nil && end != nil && l.OK(s.Synchronize(l.Context)) {
		took, err := end.Since(start)
		if l.OK(err) && took < 0 {
			l.OK(fmt.Errorf("no call failed, but a copy took %v", took))
		}
	}
}

// share exports memory and an event, and imports a pointer.
func (l *lifetime) share() {
	for _, h := range l.device.(core.MemoryExporter).ExportTypes() {
		x := l.square(core.AllocOptions{Export: h})
		if x == nil {
			continue
		}
		b, err := x.Buffer()
		l.OK(err)
		if m, err := l.device.(core.MemoryExporter).ExportMemory(b, h); l.OK(err) {
			l.OK(m.Close())
		}
		if m, err := l.device.(core.PointerImporter).ImportPointer(b.Memory().Handle, b.Memory().Size, nil); l.OK(err) {
			m.Free()
		}
	}
	l.Opened(l.device.(core.IPCEventCreator).NewIPCEvent(l.Context))
}

// peer copies from another device.
func (l *lifetime) peer(a *core.Tensor) {
	other := l.Device(l.kit.New().Open(l.Context, core.DeviceID{Type: l.kit.Type, Index: 1}))
	if other == nil {
		return
	}
	x := l.Tensor(core.Empty(l.Context, other, core.TypeFloat32, []int64{64, 64}, core.AllocOptions{Export: core.HandleOpaqueFD}))
	if x != nil && a != nil {
		l.OK(l.device.(core.PeerCopier).CopyPeer(l.Context, nil, a, x, other))
	}
}
