package triton

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
	"github.com/dlx-go/dlx/stream"
)

// card returns the device of CUDA that x lies on, or nil.
func card(x *core.Tensor) core.Device {
	if x.DeviceID().Type == core.DeviceCUDA {
		return x.Device()
	}
	return nil
}

// addInput adds an input by the best way that there is.
func (t *trip) addInput(ctx context.Context, name string, x *core.Tensor) error {
	datatype, err := datatypeOf("Infer", name, x.DType())
	if err != nil {
		return err
	}
	in := sent{name: name, datatype: datatype, shape: x.Shape()}
	report := Report{Name: name, Device: x.DeviceID(), Mechanism: Raw, Bytes: x.NumBytes()}
	var reasons []string
	if report.Bytes > 0 {
		err = t.shareInput(ctx, x, &in, &report, &reasons)
	}
	if err == nil && in.at == nil {
		in.raw, err = t.rawInput(ctx, x, &report)
	}
	if err != nil {
		return err
	}
	report.Reason = strings.Join(reasons, "; ")
	t.request.inputs, t.inputs = append(t.request.inputs, in), append(t.inputs, report)
	return nil
}

// shareInput sets in.at if the input can travel in shared memory.
func (t *trip) shareInput(ctx context.Context, x *core.Tensor, in *sent, report *Report, reasons *[]string) error {
	places := []core.Device{nil}
	if d := card(x); d != nil {
		places = []core.Device{d, nil}
	}
	for _, d := range places {
		m := mechanismFor(d)
		at, err := t.inPlace(ctx, m, d, x)
		if err != nil {
			return err
		}
		if at != nil {
			in.at, report.Mechanism = at, m
			return nil
		}
		if report.Bytes <= t.client.o.Inline {
			*reasons = append(*reasons, "the tensor is small: see Options.Inline")
			return nil
		}
		s, reason, err := t.slot(ctx, d, report.Bytes)
		if err != nil {
			return err
		}
		if s == nil {
			*reasons = append(*reasons, m.String()+": "+reason)
			continue
		}
		t.slots = append(t.slots, s)
		dst, err := s.view(report.Bytes, x.DType(), in.shape)
		if err != nil {
			return err
		}
		defer dst.Close()
		if err := t.copy(ctx, dst, x); err != nil {
			return err
		}
		in.at, report.Mechanism, report.BytesCopied = s.at(report.Bytes), m, report.Bytes
		if d != nil {
			*reasons = append(*reasons, "the memory is not of Client.EmptyOn, and the server opens no other: it opens interprocess handles of whole allocations, and no descriptors of virtual memory")
		} else if report.Device.Type.HostAccessible() {
			*reasons = append(*reasons, "the memory is not of Client.Empty")
		}
		return nil
	}
	return nil
}

// inPlace returns the place of a tensor that lies in a region, and nil for any other.
func (t *trip) inPlace(ctx context.Context, m Mechanism, d core.Device, x *core.Tensor) (*place, error) {
	if !x.Layout().IsContiguous() || x.DeviceID().Type.OpaqueHandle() || d == nil && !x.DeviceID().Type.HostAccessible() || t.why(m) != "" {
		return nil, nil
	}
	address, err := x.Address()
	if err != nil {
		return nil, err
	}
	r, offset := t.client.pool.find(d, address, x.NumBytes())
	if r == nil {
		return nil, nil
	}
	if ok, err := t.share(ctx, m, r); err != nil || !ok {
		return nil, err
	}
	if err := t.borrow(ctx, x); err != nil {
		return nil, err
	}
	return &place{region: r.name, offset: offset, size: x.NumBytes()}, nil
}

// borrow waits for the last write to x. Until the request is over, x stays allocated and others do not write to it.
func (t *trip) borrow(ctx context.Context, x *core.Tensor) error {
	if err := x.WaitReady(ctx); err != nil {
		return err
	}
	b, err := x.Buffer()
	if err != nil {
		return err
	}
	if err := b.Retain(); err != nil {
		return err
	}
	read := stream.NewEvent()
	b.Used(read)
	t.ends = append(t.ends, func() {
		read.Complete(nil)
		b.Release()
	})
	return nil
}

// copy copies x to dst, which is row-major. It returns when the copy is done.
func (t *trip) copy(ctx context.Context, dst, x *core.Tensor) error {
	if x.DeviceID().Type.HostAccessible() {
		if x.Layout().IsContiguous() && dst.DeviceID() == core.CPU {
			return copyBytes(ctx, dst, x)
		}
		return t.client.host.Copy(ctx, nil, dst, x)
	}
	d := x.Device()
	if d == nil {
		return core.Errorf(core.ErrDevice, backend, "Infer", "the tensor lies on %v, and no opened device of this process can read it: import it with its device", x.DeviceID())
	}
	return d.Copy(ctx, nil, dst, x)
}

// rawInput returns the bytes of x: those of its memory if they are adjacent and the host can read them, otherwise a copy.
func (t *trip) rawInput(ctx context.Context, x *core.Tensor, report *Report) ([]byte, error) {
	if report.Bytes == 0 {
		return []byte{}, nil
	}
	if x.DeviceID().Type.HostAccessible() && x.Layout().IsContiguous() {
		if err := t.borrow(ctx, x); err != nil {
			return nil, err
		}
		address, err := x.Address()
		if err != nil {
			return nil, err
		}
		return unsafe.Slice((*byte)(pointer(address)), report.Bytes), nil
	}
	raw := make([]byte, report.Bytes)
	dst, err := onBytes(raw, x.DType(), x.Shape())
	if err != nil {
		return nil, err
	}
	defer dst.Close()
	if err := t.copy(ctx, dst, x); err != nil {
		return nil, err
	}
	report.BytesCopied = report.Bytes
	return raw, nil
}

// copyBytes copies x to dst, which nobody else uses; both are contiguous and in memory of the host. The copy of the device for
// the host writes past the caches, because it does not know who reads next. Here the server does, at once.
func copyBytes(ctx context.Context, dst, x *core.Tensor) error {
	if err := x.WaitReady(ctx); err != nil {
		return err
	}
	b, err := x.Buffer()
	if err != nil {
		return err
	}
	if err := b.Retain(); err != nil {
		return err
	}
	defer b.Release()
	read := stream.NewEvent()
	b.Used(read)
	defer read.Complete(nil)
	from, err := x.Address()
	if err != nil {
		return err
	}
	to, err := dst.Address()
	if err != nil {
		return err
	}
	n := x.NumBytes()
	src, of := unsafe.Slice((*byte)(pointer(from)), n), memfault.Between(from, uintptr(n))
	room, in := unsafe.Slice((*byte)(pointer(to)), n), memfault.Between(to, uintptr(n))
	piece := func(first, end int64) error {
		return memfault.Guard(func(address uintptr) bool { return of(address) || in(address) }, func() { copy(room[first:end], src[first:end]) })
	}
	// One processor does not use all of the bandwidth of the memory.
	const least, most = 2 << 20, 4
	workers := min(n/least, most, int64(runtime.GOMAXPROCS(0)))
	var gone error
	if workers <= 1 {
		gone = piece(0, n)
	} else {
		errs := make([]error, workers)
		var group sync.WaitGroup
		for i := range workers {
			group.Go(func() { errs[i] = piece(n*i/workers, n*(i+1)/workers) })
		}
		group.Wait()
		gone = errors.Join(errs...)
	}
	if gone != nil {
		return core.Errorf(memfault.Wrap(core.ErrInvalid, gone), backend, "Infer", "%v", gone)
	}
	return nil
}

// pointer converts an address of memory that is not Go's, or that is pinned.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// onBytes returns a row-major tensor on bytes, which must be as many as the tensor takes.
func onBytes(raw []byte, dtype core.DType, shape []int64) (*core.Tensor, error) {
	flat, err := core.FromSlice(raw)
	if err != nil {
		return nil, err
	}
	defer flat.Close()
	b, err := flat.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, core.Spec{DType: dtype, Shape: shape})
}
