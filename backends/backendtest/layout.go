package backendtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

var layoutCases = []Case{
	{
		Name: "layout/element-types",
		Rule: "core.Device.Copy: elements of any type of dlpack.h, with lanes, and of unknown types are carried bit by bit",
		run:  caseElementTypes,
	},
	{
		Name: "layout/element-sizes",
		Rule: "core.Device.Copy: elements may have any number of bytes, odd numbers too, and strides may be any",
		run:  caseElementSizes,
	},
	{
		Name: "layout/ranks",
		Rule: "core.Device.Copy: tensors have any number of axes, 0 too",
		run:  caseRanks,
	},
	stridedCase("layout/zero-size", "dlpack.md: zero-size tensors are valid and pass through; nothing is written",
		strided{shape: []int64{0}},
		strided{shape: []int64{3, 0, 2}},
		strided{shape: []int64{3, 0, 2}, dst: []int64{-7, 0, 9}, src: []int64{0, 5, -1}},
		strided{shape: []int64{0, 0}, src: []int64{1 << 40, 1 << 40}}),
	stridedCase("layout/transposed", "core.Device.Copy: strides may be any; here the axes lie in another order",
		strided{shape: []int64{5, 7}, src: []int64{1, 5}},
		strided{shape: []int64{5, 7}, dst: []int64{1, 5}},
		strided{shape: []int64{5, 7}, dst: []int64{1, 5}, src: []int64{1, 5}},
		strided{shape: []int64{3, 4, 5}, dst: []int64{1, 3, 12}, src: []int64{4, 1, 12}}),
	stridedCase("layout/gaps", "core.Device.Copy: strides may be any; here there are gaps between rows, which keep their bytes",
		strided{shape: []int64{4, 6}, dst: []int64{10, 1}},
		strided{shape: []int64{4, 6}, src: []int64{10, 1}},
		strided{shape: []int64{4, 6}, dst: []int64{9, 1}, src: []int64{7, 1}},
		strided{shape: []int64{2, 3, 4}, dst: []int64{100, 20, 3}, src: []int64{90, 30, 7}}),
	stridedCase("layout/every-second", "core.Device.Copy: strides may be any; here every second or third element is taken, and the others stay",
		strided{shape: []int64{9}, dst: []int64{2}},
		strided{shape: []int64{9}, src: []int64{3}},
		strided{shape: []int64{9}, dst: []int64{2}, src: []int64{2}},
		strided{shape: []int64{5, 4}, dst: []int64{16, 2}, src: []int64{8, 1}}),
	stridedCase("layout/negative-strides", "dlpack.md: negative strides are not forbidden",
		strided{shape: []int64{9}, src: []int64{-1}},
		strided{shape: []int64{9}, dst: []int64{-1}},
		strided{shape: []int64{9}, dst: []int64{-2}, src: []int64{-3}},
		strided{shape: []int64{4, 5}, dst: []int64{-5, 1}, src: []int64{5, -1}},
		strided{shape: []int64{4, 5}, dst: []int64{-5, -1}, src: []int64{1, -4}}),
	stridedCase("layout/broadcast-source", "core.Layout.Broadcast: an axis of src may repeat its elements by stride 0",
		strided{shape: []int64{9}, src: []int64{0}},
		strided{shape: []int64{4, 5}, src: []int64{0, 1}},
		strided{shape: []int64{4, 5}, src: []int64{1, 0}},
		strided{shape: []int64{4, 5}, dst: []int64{1, 4}, src: []int64{0, 0}}),
	stridedCase("layout/nhwc-and-nchw", "core.Device.Copy: strides may be any; here images change between the two usual layouts",
		strided{shape: []int64{2, 3, 8, 5}, src: []int64{120, 1, 15, 3}},
		strided{shape: []int64{2, 8, 5, 3}, src: []int64{120, 5, 1, 40}}),
	stridedCase("layout/single-element-axes", "dlpack.md: the stride of an axis with extent 1 is kept as it is given; it means nothing",
		strided{shape: []int64{1}, dst: []int64{1 << 40}, src: []int64{-1 << 40}},
		strided{shape: []int64{1, 6, 1}, dst: []int64{0, 1, 12345}, src: []int64{-3, 1, 0}},
		strided{shape: []int64{4, 1, 5}, dst: []int64{5, 1 << 50, 1}, src: []int64{5, -1 << 50, 1}}),
	stridedCase("layout/beyond-32-bits", "core.Layout: extents and strides have 64 bits, of which a tensor can use more than 32 in little memory",
		strided{shape: []int64{3, 1, 4}, dst: []int64{4, 1 << 31, 1}, src: []int64{1, 1 << 32, 3}},
		strided{shape: []int64{1, 4, 3}, dst: []int64{-1<<33 - 1, 1, 4}, src: []int64{1<<32 + 1, -3, 1}},
		strided{shape: []int64{0, 1 << 33}, dst: []int64{1 << 33, 1}, src: []int64{1, 0}},
		strided{shape: []int64{1 << 31, 0, 1 << 31}, dst: []int64{1, 1, 1}, src: []int64{0, 0, 0}}),
	{
		Name: "layout/any-offset",
		Rule: "dlpack.md: the data address is data + byte_offset, and consumers do not rely on its alignment",
		run:  caseOffsets,
	},
	{
		Name: "layout/large",
		Rule: "core.Device.Copy: tensors of many megabytes are copied completely, contiguous and transposed",
		run:  caseLarge,
	},
	{
		Name: "layout/random",
		Rule: "core.Device.Copy: types and shapes are equal, strides may be any",
		run:  caseRandom,
	},
}

// strided is a shape with strides for both sides; nil strides are row-major.
type strided struct{ shape, dst, src []int64 }

// stridedCase copies between layouts, with elements of several sizes.
func stridedCase(name, rule string, layouts ...strided) Case {
	types := []core.DType{core.TypeUint8, core.TypeBFloat16, {Code: typecode.UInt, Bits: 8, Lanes: 3}, core.TypeFloat32, core.TypeInt64, core.TypeComplex128}
	return Case{Name: name, Rule: rule, run: func(e *env) {
		for _, l := range layouts {
			for _, t := range types {
				e.wantCopied(e.newImage(t, 0, l.shape, l.dst, 0), e.newImage(t, 0, l.shape, l.src, 0))
			}
		}
	}}
}

// elementTypes are the types of whole bytes: all of dlpack.h, some with lanes,
// and an unknown one.
func elementTypes() []core.DType {
	types := []core.DType{
		core.TypeInt8, core.TypeInt16, core.TypeInt32, core.TypeInt64,
		core.TypeUint8, core.TypeUint16, core.TypeUint32, core.TypeUint64,
		core.TypeFloat16, core.TypeFloat32, core.TypeFloat64, core.TypeBFloat16,
		core.TypeComplex64, core.TypeComplex128, core.TypeBool,
		{Code: typecode.OpaqueHandle, Bits: 64, Lanes: 1},
		{Code: typecode.Float, Bits: 128, Lanes: 1},
		{Code: typecode.Complex, Bits: 32, Lanes: 1},
		{Code: typecode.Bcomplex, Bits: 32, Lanes: 1},
		{Code: typecode.Float, Bits: 32, Lanes: 4},
		{Code: typecode.UInt, Bits: 8, Lanes: 3},
		{Code: typecode.Int, Bits: 16, Lanes: 5},
		{Code: typecode.Float, Bits: 64, Lanes: 8},
		{Code: 200, Bits: 24, Lanes: 1},
	}
	for code := typecode.Float8E3M4; code <= typecode.Float8E8M0FNU; code++ {
		types = append(types, core.DType{Code: code, Bits: 8, Lanes: 1})
	}
	return types
}

func caseElementTypes(e *env) {
	shape := []int64{3, 7}
	for _, t := range elementTypes() {
		e.wantCopied(e.newImage(t, 0, shape, nil, 0), e.newImage(t, 0, shape, nil, 0))
		e.wantCopied(e.newImage(t, 0, shape, []int64{1, 3}, 0), e.newImage(t, 0, shape, []int64{14, 2}, 0))
	}
}

func caseElementSizes(e *env) {
	layouts := []strided{
		{shape: []int64{37}},
		{shape: []int64{5, 7}, dst: []int64{1, 5}},
		{shape: []int64{5, 7}, src: []int64{-9, 1}},
		{shape: []int64{9}, dst: []int64{-2}, src: []int64{3}},
		{shape: []int64{4, 3}, dst: []int64{1, 4}, src: []int64{0, -1}},
	}
	for _, size := range []uint16{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 33} {
		t := core.DType{Code: typecode.UInt, Bits: 8, Lanes: size}
		for _, l := range layouts {
			e.wantCopied(e.newImage(t, 0, l.shape, l.dst, 0), e.newImage(t, 0, l.shape, l.src, 0))
		}
	}
}

func caseRanks(e *env) {
	for rank := range 9 {
		shape := []int64{2, 3, 1, 4, 2, 3, 2, 2}[:rank]
		reversed := make([]int64, rank)
		stride := int64(1)
		for a, n := range shape { // column-major
			reversed[a], stride = stride, stride*n
		}
		e.wantCopied(e.newImage(core.TypeFloat32, 0, shape, nil, 0), e.newImage(core.TypeFloat32, 0, shape, nil, 0))
		e.wantCopied(e.newImage(core.TypeInt16, 0, shape, reversed, 0), e.newImage(core.TypeInt16, 0, shape, nil, 0))
		e.wantCopied(e.newImage(core.TypeUint8, 0, shape, nil, 0), e.newImage(core.TypeUint8, 0, shape, reversed, 0))
	}
}

func caseOffsets(e *env) {
	for _, t := range []core.DType{core.TypeUint8, core.TypeFloat32, core.TypeComplex128} {
		for _, slack := range []int64{1, 2, 3, 7, 65} {
			e.wantCopied(e.newImage(t, 0, []int64{50}, nil, slack), e.newImage(t, 0, []int64{50}, nil, 0))
			e.wantCopied(e.newImage(t, 0, []int64{50}, nil, 0), e.newImage(t, 0, []int64{50}, nil, slack))
			e.wantCopied(e.newImage(t, 0, []int64{5, 6}, []int64{1, 5}, slack), e.newImage(t, 0, []int64{5, 6}, nil, 2*slack))
		}
	}
}

func caseLarge(e *env) {
	// More than a kernel's share for one thread, and no round numbers.
	content := e.pattern(4<<20 + 13)
	row := e.bytes(int64(len(content)))
	e.copy(nil, row, e.upload(content))
	e.wantBytes(row, content, "many megabytes in a row")

	src := e.newImage(core.TypeUint16, 0, []int64{1031, 517}, []int64{1, 1031}, 0)
	dst := e.newImage(core.TypeUint16, 0, []int64{1031, 517}, nil, 0)
	t := e.onDevice(dst)
	e.copy(nil, t, e.onDevice(src))
	if got, want := e.memoryOf(t), dst.copied(src); !bytes.Equal(got, want) {
		e.Errorf("a large transpose: %s", difference(got, want))
	}
}

func caseRandom(e *env) {
	types := elementTypes()
	n := 150
	if testing.Short() {
		n = 30
	}
	for i := range n {
		t := types[e.rng.IntN(len(types))]
		shape := make([]int64, e.rng.IntN(6))
		for a := range shape {
			shape[a] = 1 + e.rng.Int64N(5)
		}
		dst := e.newImage(t, 0, shape, randomStrides(e.rng, shape, false), e.rng.Int64N(4))
		src := e.newImage(t, 0, shape, randomStrides(e.rng, shape, true), e.rng.Int64N(4))
		e.wantCopied(dst, src)
		if e.Failed() {
			e.Fatalf("random layout %d of %s", i, seedText(e.cfg.Seed))
		}
	}
}

// seedText says how to repeat the same random layouts.
func seedText(seed uint64) string {
	return fmt.Sprintf("seed %d; repeat them by backendtest.Options{Seed: %[1]d}", seed)
}

// randomStrides puts the axes in any order and direction, with gaps. With repeat
// some axes have stride 0; otherwise no two elements meet.
func randomStrides(rng *rand.Rand, shape []int64, repeat bool) []int64 {
	strides := make([]int64, len(shape))
	next := int64(1)
	for _, a := range rng.Perm(len(shape)) {
		strides[a] = next * (1 + rng.Int64N(3))
		next = strides[a] * shape[a]
		switch r := rng.IntN(6); {
		case r < 2:
			strides[a] = -strides[a]
		case r == 2 && repeat:
			strides[a] = 0
		}
	}
	return strides
}
