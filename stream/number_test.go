package stream_test

import (
	"errors"
	"math"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// The table of the Python array API standard, __dlpack__, argument stream.
func TestStreamNumbers(t *testing.T) {
	type want struct {
		kind   stream.Kind
		handle uintptr
		err    error
	}
	handle := func(h uintptr) want { return want{kind: stream.Handle, handle: h} }
	kind := func(k stream.Kind) want { return want{kind: k} }
	invalid, unsupported := want{err: core.ErrInvalid}, want{err: core.ErrNotSupported}
	cuda := map[int64]want{
		math.MinInt64: invalid, -2: invalid, -1: kind(stream.NoSync), 0: invalid, 1: kind(stream.Default),
		2: kind(stream.PerThreadDefault), 3: handle(3), 0x7f00_beef: handle(0x7f00_beef), math.MaxInt32: handle(math.MaxInt32),
	}
	rocm := map[int64]want{
		math.MinInt64: invalid, -2: invalid, -1: kind(stream.NoSync), 0: kind(stream.Default), 1: unsupported, 2: unsupported,
		3: handle(3), 0x7f00_beef: handle(0x7f00_beef),
	}
	none := map[int64]want{-2: unsupported, -1: unsupported, 0: unsupported, 1: unsupported, 3: unsupported}
	for device, rows := range map[core.DeviceType]map[int64]want{
		core.DeviceCPU:  {-2: invalid, -1: invalid, 0: invalid, 1: invalid, 2: invalid, 3: invalid},
		core.DeviceCUDA: cuda, core.DeviceCUDAHost: cuda, core.DeviceCUDAManaged: cuda,
		core.DeviceROCM: rocm, core.DeviceROCMHost: rocm,
		core.DeviceOpenCL: none, core.DeviceMetal: none, core.DeviceVulkan: none, core.DeviceType(99): none, core.DeviceType(-1): none,
	} {
		for number, want := range rows {
			got, err := stream.FromDLPack(device, number)
			if !errors.Is(err, want.err) {
				t.Errorf("%d on %v gives %v, want %v", number, device, err, want.err)
				continue
			}
			if got.Kind != want.kind || got.Handle != want.handle {
				t.Errorf("%d on %v is %+v, want %+v", number, device, got, want)
			}
			if err != nil {
				continue
			}
			if back, none, err := stream.ToDLPack(device, got); back != number || none || err != nil {
				t.Errorf("%+v on %v goes back to %d, %v, %v; want %d", got, device, back, none, err, number)
			}
		}
	}
}

func TestStreamNumberForAProducer(t *testing.T) {
	for _, c := range []struct {
		device core.DeviceType
		stream stream.Number
		number int64
		none   bool
		err    error
	}{
		{core.DeviceCUDA, stream.FromNone(), 1, false, nil},
		{core.DeviceROCM, stream.FromNone(), 0, false, nil},
		{core.DeviceCPU, stream.FromNone(), 0, true, nil},
		{core.DeviceVulkan, stream.FromNone(), 0, true, nil},
		{core.DeviceCPU, stream.Number{Kind: stream.NoSync}, 0, false, core.ErrNotSupported},
		{core.DeviceVulkan, stream.Number{Kind: stream.Handle, Handle: 9}, 0, false, core.ErrNotSupported},
		{core.DeviceROCM, stream.Number{Kind: stream.PerThreadDefault}, 0, false, core.ErrNotSupported},
		{core.DeviceCUDA, stream.Number{Kind: stream.Handle}, 0, false, core.ErrInvalid},
		{core.DeviceCUDA, stream.Number{Kind: stream.Handle, Handle: 2}, 0, false, core.ErrInvalid},
		{core.DeviceCUDA, stream.Number{Kind: stream.Handle, Handle: ^uintptr(0)}, 0, false, core.ErrInvalid},
		{core.DeviceCUDA, stream.Number{Kind: stream.Default, Handle: 5}, 0, false, core.ErrInvalid},
		{core.DeviceCUDA, stream.Number{Kind: 77}, 0, false, core.ErrNotSupported},
	} {
		number, none, err := stream.ToDLPack(c.device, c.stream)
		if number != c.number || none != c.none || !errors.Is(err, c.err) {
			t.Errorf("%v %+v gives %d, %v, %v; want %d, %v, %v", c.device, c.stream, number, none, err, c.number, c.none, c.err)
		}
	}
}

func TestKindNames(t *testing.T) {
	for kind, want := range map[stream.Kind]string{
		stream.Default: "default", stream.PerThreadDefault: "per_thread_default", stream.NoSync: "no_sync", stream.Handle: "handle", 9: "unknown",
	} {
		if kind.String() != want {
			t.Errorf("%d prints as %s, want %s", kind, kind, want)
		}
	}
}

// Every number either comes back as it was, or is refused by a typed error.
func FuzzStreamNumber(f *testing.F) {
	for _, number := range []int64{math.MinInt64, -2, -1, 0, 1, 2, 3, math.MaxInt64} {
		f.Add(int32(core.DeviceCUDA), number)
		f.Add(int32(core.DeviceROCM), number)
		f.Add(int32(core.DeviceCPU), number)
	}
	f.Fuzz(func(t *testing.T, device int32, number int64) {
		n, err := stream.FromDLPack(core.DeviceType(device), number)
		if err != nil {
			if !errors.Is(err, core.ErrInvalid) && !errors.Is(err, core.ErrNotSupported) {
				t.Errorf("%d on %d: %v", number, device, err)
			}
			return
		}
		if back, none, err := stream.ToDLPack(core.DeviceType(device), n); back != number || none || err != nil {
			t.Errorf("%d on %d is %+v and goes back to %d, %v, %v", number, device, n, back, none, err)
		}
	})
}
