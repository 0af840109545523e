package backendtest

import (
	"context"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// crudeMutants break so much that many cases must find it.
var crudeMutants = slices.Concat(
	each("takes every copy",
		hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			_ = d.Copy(ctx, s, dst, src)
			return nil
		}}, "error <nil>",
		"copy-error/read-only-view", "copy-error/padding", "copy-error/dst-repeats", "copy-error/overlap",
		"copy-error/closed-dst", "copy-error/closed-src", "copy-error/nil-dst", "copy-error/nil-src",
		"copy-error/other-device-src", "copy-error/other-device-dst"),
	each("takes strided elements for a row",
		copyOther(func(dst, src *core.Spec) { dst.Strides, src.Strides = nil, nil }), "bytes differ",
		"layout/gaps", "layout/nhwc-and-nchw", "layout/large", "layout/random", "subbyte/random", "dlpack/same-memory"),
	each("closes with memory open", closesAnyway, "open: error <nil>", "lifetime/last-view", "dlpack/outlives-the-tensor"),
	each("closes during a copy", closesAnyway, "Close succeeded during a copy", "lifetime/close-during-copy"),
	each("is not safe for concurrent use", hooks{copy: oneAtATime}, "two calls at once",
		"hammer/memory", "hammer/streams", "hammer/one-stream", "hammer/one-source"),
	each("forgets that what came back is read-only", forgetsReadOnly, "error <nil>", "dlpack/read-only"),
	each("leaves out the last element",
		copyOther(func(dst, src *core.Spec) { dst.Shape[0]--; src.Shape[0] = dst.Shape[0] }), "bytes differ", "subbyte/packed"),
	each("takes padded elements for packed ones",
		copyOther(func(dst, src *core.Spec) { dst.Flags, src.Flags = 0, 0 }), "bytes differ", "subbyte/padded"),
	each("minds the stride of a single element", failFor(func(t *core.Tensor) bool {
		return t.Rank() > 0 && t.Layout().Dim(0) == 1 && t.Layout().Stride(0) != 1
	}), "not supported", "layout/single-element-axes"),
	each("cannot copy tensors without elements", failFor(isEmpty), "not supported", "dlpack/zero-size"),
	each("copies nothing from a peer", hooks{
		copyPeer: func(*device, context.Context, core.Stream, *core.Tensor, *core.Tensor, core.Device) error { return nil },
	}, "of the peer: ", "peer/copy"),
	each("is held up by a failure that is overwritten",
		hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			if err := dst.WaitReady(ctx); err != nil {
				return err
			}
			return d.Copy(ctx, s, dst, src)
		}}, "fails on purpose", "order/overwrite-failed-write"),
	each("does not wait for the writes of others to src", forgetsSrc, "what a reader of the whole got", "order/views-share-order"),
	each("holds on to a host src",
		hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			b, err := src.Buffer()
			if err == nil && src.DeviceID() == core.CPU && b.Retain() == nil {
				d.later(b.Release)
			}
			return d.Copy(ctx, s, dst, src)
		}}, "the owner was freed 0 times", "hammer/close"),
	each("frees too early", freesEarly, "the end of the chain", "lifetime/close-after-enqueue"),
	each("hands out the same memory again and again", hooks{alloc: (*device).sameMemory}, "result 0", "alloc/for-a-stream"),
	each("maps host memory for one at a time", hooks{mapHost: oneMapAtATime(mapTrue)}, "two calls at once", "hammer/map-host"),
	each("maps a copy of host memory", hooks{mapHost: copyOf}, "the host's view after a write by the device", "map-host/no-copy"),
	each("claims that its memory is the host's", hooks{
		properties: declares(core.CapHostMemory).properties,
		alloc:      allocElsewhere,
		copy:       func(*device, context.Context, core.Stream, *core.Tensor, *core.Tensor) error { return nil },
	}, "the host reads something else", "device/host-memory"),
	each("imports no memory but its own", declares(core.CapHostMemory),
		"ImportPointer of host memory, offset 0", "import-pointer/host-memory"),
	each("events are not done after Wait", records(func(e core.Event) core.Event { return undone{e} }),
		"not done after Wait", "stream/record-without-work"),
	each("a semaphore counts one too many", hooks{semaphore: semaphoreHooks{
		signal: func(m core.Semaphore, s core.Stream, v uint64) error { return m.Signal(s, v+1) },
	}}, "Value is 2", "semaphore/value"),
)

// each makes a mutant for every case that must find the same defect.
func each(name string, h hooks, says string, cases ...string) []mutant[hooks] {
	var list []mutant[hooks]
	for _, c := range cases {
		list = append(list, mutant[hooks]{name + ", " + c, c, says, h})
	}
	return list
}

// undone is an event that does not know that it is done.
type undone struct{ core.Event }

func (undone) Done() (bool, error) { return false, nil }

// alone does work unless a call is on its way, and after such a clash none at all.
func alone[R any](d *device, work func() (R, error)) (none R, err error) {
	if d.calls.Add(1) > 1 {
		return none, core.Errorf(core.ErrInvalid, "mutant", "Copy", "two calls at once")
	}
	defer d.calls.Add(-1)
	time.Sleep(time.Millisecond) // for the others to come
	return work()
}

func oneAtATime(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	_, err := alone(d, func() (struct{}, error) { return struct{}{}, d.Copy(ctx, s, dst, src) })
	return err
}

// oneMapAtATime is a hook that goes wrong when two goroutines call it.
func oneMapAtATime(hook memoryHook) memoryHook {
	return func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
		return alone(d, func() (core.Memory, error) { return hook(d, ctx, b) })
	}
}

// copyOf allocates memory with the contents of b.
func copyOf(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
	shape := []int64{b.Memory().Size}
	m, err := d.Alloc(ctx, shape[0], core.AllocOptions{})
	if err != nil {
		return core.Memory{}, err
	}
	borrowed, spec := m, core.Spec{DType: core.TypeUint8, Shape: shape}
	borrowed.Owner = nil
	return m, use(core.NewTensor(b, spec))(func(src *core.Tensor) error {
		return use(core.Wrap(borrowed, spec))(func(dst *core.Tensor) error { return d.Copy(ctx, nil, dst, src) })
	})
}

// allocElsewhere gives memory of the host that the device knows nothing of.
func allocElsewhere(d *device, _ context.Context, size int64, _ core.AllocOptions) (core.Memory, error) {
	p := make([]byte, size)
	return core.Memory{
		ID: d.ID(), Device: d, Size: size, Handle: uintptr(unsafe.Pointer(&p[0])),
		Owner: core.FreeFunc(func() { runtime.KeepAlive(p) }),
	}, nil
}
