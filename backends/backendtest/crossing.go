package backendtest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

var crossingCases = []Case{
	{
		Name: "order/between-streams",
		Rule: "core.Device.Copy: waits for earlier work of another stream, whichever way both copy: to the device, from it or within it, contiguous or strided",
		run:  caseBetweenStreams,
	},
	{
		Name: "order/between-streams-large",
		Rule: "core.Device.Copy: waits for earlier work of another stream, also for copies of megabytes",
		run:  caseBetweenStreamsLarge,
	},
}

// side is one of two copies that meet in a tensor of the device.
type side struct {
	host    bool // the other end is on the host
	strided bool // the other end is
}

func (s side) String() string {
	text := "within the device"
	if s.host {
		text = "with the host"
	}
	if s.strided {
		text += ", strided"
	}
	return text
}

var sides = []side{{false, false}, {false, true}, {true, false}, {true, true}}

func caseBetweenStreams(e *env) {
	busy := e.busyness()
	for _, n := range []int64{3, 64} {
		for _, writer := range sides {
			for _, reader := range sides {
				e.wantCrossing(busy, core.TypeComplex128, n, writer, reader)
			}
		}
	}
}

func caseBetweenStreamsLarge(e *env) {
	wide := core.DType{Code: typecode.Float, Bits: 64, Lanes: 8}
	busy := e.busyness()
	for _, c := range []struct{ writer, reader side }{
		{side{}, side{host: true, strided: true}},
		{side{}, side{strided: true}},
		{side{host: true}, side{host: true}},
	} {
		e.wantCrossing(busy, wide, 256, c.writer, c.reader) // 4 MiB
	}
}

// wantCrossing proves that one stream reads what another one writes just then,
// and that a later write leaves the reader alone: n times n elements of type t.
func (e *env) wantCrossing(busy func(core.Stream), t core.DType, n int64, writer, reader side) {
	e.Helper()
	first, second := e.stream(), e.stream()
	matrix := func(s side) *image {
		var strides []int64
		if s.strided {
			strides = []int64{1, n}
		}
		return e.newImage(t, 0, []int64{n, n}, strides, 0)
	}
	source, next, middle, out := matrix(writer), matrix(writer), matrix(side{}), matrix(reader)
	place := func(m *image, s side) *core.Tensor {
		if s.host {
			return e.onHost(m)
		}
		return e.onDevice(m)
	}
	from, update := place(source, writer), place(next, writer)
	between := e.onDevice(middle)
	result := *out
	result.bytes = slices.Clone(out.bytes)
	to := place(&result, reader)

	written, overwritten := *middle, *middle
	written.bytes, overwritten.bytes = middle.copied(source), middle.copied(next)
	busy(first)
	e.copy(first, between, from)
	e.copy(second, to, between)
	e.copy(first, between, update)
	e.synchronize(second)
	if !reader.host {
		result.bytes = e.memoryOf(to)
	}
	what := fmt.Sprintf("%d bytes, written %v, read %v", between.NumBytes(), writer, reader)
	if want := out.copied(&written); string(result.bytes) != string(want) {
		e.Errorf("%s on another stream: %s", what, difference(result.bytes, want))
	}
	e.synchronize(first)
	if got := e.memoryOf(between); string(got) != string(overwritten.bytes) {
		e.Errorf("%s, after it was written again: %s", what, difference(got, overwritten.bytes))
	}
	for _, x := range []*core.Tensor{from, update, between, to} {
		_ = x.Close()
	}
	e.check(errors.Join(first.Close(), second.Close()), "Close of the streams") // a device may have few
}

// busyness returns what gives a stream work for a while. Its memory stays until the case ends.
func (e *env) busyness() func(core.Stream) {
	e.Helper()
	from, to := e.bytes(1<<22), e.bytes(1<<22)
	return func(s core.Stream) {
		e.Helper()
		for range 4 {
			e.copy(s, to, from)
		}
	}
}
