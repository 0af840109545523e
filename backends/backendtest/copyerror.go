package backendtest

import "github.com/dlx-go/dlx/core"

var copyErrorCases = []Case{
	refusal("copy-error/read-only", "backendkit.CheckCopy: a read-only dst fails with ErrReadOnly", core.ErrReadOnly,
		func(e *env) (dst, src *core.Tensor) {
			t, err := e.upload(e.pattern(16)).AsReadOnly()
			return e.keep(t, err), e.upload(e.pattern(16))
		}),
	refusal("copy-error/read-only-view", "core.FlagReadOnly: every view of a read-only tensor is read-only too", core.ErrReadOnly,
		func(e *env) (dst, src *core.Tensor) {
			t, err := e.upload(e.pattern(16)).AsReadOnly()
			v, err := e.keep(t, err).Slice(0, 4, 12, 1)
			return e.keep(v, err), e.upload(e.pattern(8))
		}),
	refusal("copy-error/element-types", "backendkit.CheckCopy: different element types fail with ErrDType, even of the same size", core.ErrDType,
		func(e *env) (dst, src *core.Tensor) {
			return e.upload(e.pattern(16)), e.view(e.upload(e.pattern(16)), core.Spec{DType: core.TypeInt8, Shape: []int64{16}})
		}),
	refusal("copy-error/padding", "backendkit.CheckCopy: a copy between packed and padded sub-byte elements fails with ErrDType", core.ErrDType,
		func(e *env) (dst, src *core.Tensor) {
			s := core.Spec{DType: core.TypeInt4, Shape: []int64{8}}
			packed := e.view(e.upload(e.pattern(16)), s)
			s.Flags = core.FlagSubBytePadded
			return packed, e.view(e.upload(e.pattern(16)), s)
		}),
	refusal("copy-error/shapes", "backendkit.CheckCopy: different shapes fail with ErrLayout", core.ErrLayout,
		func(e *env) (dst, src *core.Tensor) { return e.upload(e.pattern(16)), e.upload(e.pattern(15)) }),
	refusal("copy-error/broadcast-shapes", "backendkit.CheckCopy: src is not broadcast by itself: different shapes fail with ErrLayout", core.ErrLayout,
		func(e *env) (dst, src *core.Tensor) { return e.upload(e.pattern(16)), e.upload(e.pattern(1)) }),
	refusal("copy-error/dst-repeats", "backendkit.CheckCopy: a dst whose elements repeat fails with ErrLayout", core.ErrLayout,
		func(e *env) (dst, src *core.Tensor) {
			s := core.Spec{DType: core.TypeUint8, Shape: []int64{4, 4}, Strides: []int64{0, 1}}
			return e.view(e.upload(e.pattern(16)), s), e.view(e.upload(e.pattern(16)), s)
		}),
	refusal("copy-error/overlap", "backendkit.CheckCopy: dst and src that share bytes without being the same elements fail with ErrLayout", core.ErrLayout,
		func(e *env) (dst, src *core.Tensor) {
			t := e.upload(e.pattern(16))
			low, err := t.Slice(0, 0, 10, 1)
			e.keep(low, err)
			high, err := t.Slice(0, 6, 16, 1)
			return e.keep(high, err), low
		}),
	refusal("copy-error/closed-dst", "core.ErrClosed: a copy to a closed dst fails with it", core.ErrClosed,
		func(e *env) (dst, src *core.Tensor) {
			t := e.upload(e.pattern(16))
			_ = t.Close()
			return t, e.upload(e.pattern(16))
		}),
	refusal("copy-error/closed-src", "core.ErrClosed: a copy from a closed src fails with it", core.ErrClosed,
		func(e *env) (dst, src *core.Tensor) {
			t := e.upload(e.pattern(16))
			_ = t.Close()
			return e.upload(e.pattern(16)), t
		}),
	refusal("copy-error/nil-dst", "core.ErrInvalid: a copy to a nil dst fails with it", core.ErrInvalid,
		func(e *env) (dst, src *core.Tensor) { return nil, e.upload(e.pattern(16)) }),
	refusal("copy-error/nil-src", "core.ErrInvalid: a copy from a nil src fails with it", core.ErrInvalid,
		func(e *env) (dst, src *core.Tensor) { return e.upload(e.pattern(16)), nil }),
	refusal("copy-error/other-device-src", "core.ErrDevice: a copy fails with it if src is on a device that is neither this one nor the host", core.ErrDevice,
		func(e *env) (dst, src *core.Tensor) { return e.upload(e.pattern(16)), e.elsewhere() }),
	refusal("copy-error/other-device-dst", "core.ErrDevice: a copy fails with it if dst is on a device that is neither this one nor the host", core.ErrDevice,
		func(e *env) (dst, src *core.Tensor) { return e.elsewhere(), e.upload(e.pattern(16)) }),
	{
		Name: "copy-error/same-elements",
		Rule: "backendkit.CheckCopy: if dst and src are the same elements, the copy succeeds and nothing needs to be copied",
		run:  caseSameElements,
	},
}

// elsewhere is a tensor of 16 bytes on a device that does not exist. Its address is never used.
func (e *env) elsewhere() *core.Tensor {
	e.Helper()
	id := core.DeviceID{Type: core.DeviceHexagon, Index: 99}
	if e.props.ID.Type == id.Type {
		id.Type = core.DeviceTrn
	}
	return e.keep(core.Wrap(core.Memory{ID: id, Handle: 1 << 20, Size: 16}, core.Spec{DType: core.TypeUint8, Shape: []int64{16}}))
}

// refusal is a case in which Copy must fail with a typed error, before any work.
func refusal(name, rule string, sentinel error, tensors func(*env) (dst, src *core.Tensor)) Case {
	return Case{Name: name, Rule: rule + "; no work is enqueued", run: func(e *env) {
		dst, src := tensors(e)
		before := e.contents(dst)
		s := e.stream()
		for _, on := range []core.Stream{nil, s} {
			e.wantError(e.dev.Copy(e.ctx, on, dst, src), sentinel, "Copy(%v <- %v)", dst, src)
			for _, t := range []*core.Tensor{dst, src} {
				if t == nil {
					continue
				}
				if b, err := t.Buffer(); err == nil && len(b.Pending()) != 0 {
					e.Errorf("a copy that failed at once left work pending on %v", t)
				}
			}
		}
		e.synchronize(s)
		if after := e.contents(dst); string(after) != string(before) {
			e.Errorf("a copy that failed wrote to dst: %s", difference(after, before))
		}
	}}
}

// contents reads the memory of a tensor of this device, if it is open.
func (e *env) contents(t *core.Tensor) []byte {
	e.Helper()
	if t == nil || t.Device() != e.dev {
		return nil
	}
	return e.memoryOf(t)
}

func caseSameElements(e *env) {
	content := e.pattern(1000)
	t := e.upload(content)
	again, err := t.Share()
	e.keep(again, err)
	s := e.stream()
	e.copy(nil, t, again)
	e.copy(s, again, t)
	e.synchronize(s)
	e.wantBytes(t, content, "a tensor that was copied onto itself")
}
