package backendtest

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

var subByteCases = []Case{
	{
		Name: "subbyte/packed",
		Rule: "dlpack.h IS_SUBBYTE_TYPE_PADDED: without the flag sub-byte elements are packed, so n of them take ceil(n*bits*lanes/8) bytes",
		run:  caseSubBytePacked,
	},
	{
		Name: "subbyte/padded",
		Rule: "dlpack.h IS_SUBBYTE_TYPE_PADDED: with the flag each number takes a byte, and strides may be any",
		run:  caseSubBytePadded,
	},
	{
		Name:  "subbyte/neighbours",
		Rule:  "core.CapSubByte: packed elements that share a byte with the last elements of dst keep their bits",
		Needs: core.CapSubByte,
		run:   caseSubByteNeighbours,
	},
	{
		Name:  "subbyte/strided",
		Rule:  "core.CapSubByte: packed sub-byte elements are copied with any strides, in little-endian bit order; bits in between keep their values",
		Needs: core.CapSubByte,
		run:   caseSubByteStrided,
	},
	{
		Name:  "subbyte/random",
		Rule:  "core.CapSubByte: packed sub-byte elements are copied with any strides",
		Needs: core.CapSubByte,
		run:   caseSubByteRandom,
	},
	{
		Name:  "subbyte/unsupported",
		Rule:  "core.CapSubByte: without it, a strided copy of packed sub-byte elements is either right, or fails with ErrNotSupported and writes nothing",
		Lacks: core.CapSubByte,
		run:   caseSubByteUnsupported,
	},
}

// subByteTypes are those of dlpack.h, of every width below a byte, some with lanes.
func subByteTypes() []core.DType {
	types := []core.DType{
		core.TypeFloat4E2M1FN, core.TypeInt4,
		{Code: typecode.Float6E2M3FN, Bits: 6, Lanes: 1},
		{Code: typecode.Float6E3M2FN, Bits: 6, Lanes: 1},
		{Code: typecode.Int, Bits: 4, Lanes: 2},
		{Code: typecode.UInt, Bits: 4, Lanes: 3},
		{Code: typecode.Float6E2M3FN, Bits: 6, Lanes: 4},
	}
	for width := uint8(1); width < 8; width++ {
		types = append(types, core.DType{Code: typecode.UInt, Bits: width, Lanes: 1})
	}
	return types
}

func caseSubBytePacked(e *env) {
	for _, t := range subByteTypes() {
		for _, shape := range [][]int64{{8}, {3, 16}, {0}} { // whole bytes
			e.wantCopied(e.newImage(t, 0, shape, nil, 0), e.newImage(t, 0, shape, nil, 0))
		}
	}
}

func caseSubBytePadded(e *env) {
	const padded = core.FlagSubBytePadded
	for _, t := range subByteTypes() {
		e.wantCopied(e.newImage(t, padded, []int64{13}, nil, 0), e.newImage(t, padded, []int64{13}, nil, 0))
		e.wantCopied(e.newImage(t, padded, []int64{3, 5}, []int64{1, 3}, 1), e.newImage(t, padded, []int64{3, 5}, []int64{10, -2}, 0))
	}
}

func caseSubByteNeighbours(e *env) {
	for _, t := range subByteTypes() {
		for n := int64(1); n < 10; n++ {
			e.wantCopied(e.newImage(t, 0, []int64{n}, nil, 0), e.newImage(t, 0, []int64{n}, nil, 0))
		}
	}
}

func caseSubByteStrided(e *env) {
	for _, t := range subByteTypes() {
		for _, l := range []strided{
			{shape: []int64{9}, dst: []int64{2}},
			{shape: []int64{9}, src: []int64{3}},
			{shape: []int64{9}, dst: []int64{-1}, src: []int64{1}},
			{shape: []int64{9}, dst: []int64{1}, src: []int64{-2}},
			{shape: []int64{5, 7}, dst: []int64{1, 5}},
			{shape: []int64{5, 7}, src: []int64{1, 5}},
			{shape: []int64{4, 3}, dst: []int64{5, 1}, src: []int64{0, 1}},
		} {
			e.wantCopied(e.newImage(t, 0, l.shape, l.dst, 0), e.newImage(t, 0, l.shape, l.src, 0))
		}
	}
}

func caseSubByteRandom(e *env) {
	types := subByteTypes()
	for i := range 60 {
		t := types[e.rng.IntN(len(types))]
		shape := make([]int64, 1+e.rng.IntN(4))
		for a := range shape {
			shape[a] = 1 + e.rng.Int64N(6)
		}
		dst := e.newImage(t, 0, shape, randomStrides(e.rng, shape, false), 0)
		src := e.newImage(t, 0, shape, randomStrides(e.rng, shape, true), 0)
		e.wantCopied(dst, src)
		if e.Failed() {
			e.Fatalf("random layout %d of %s", i, seedText(e.cfg.Seed))
		}
	}
}

func caseSubByteUnsupported(e *env) {
	for _, t := range subByteTypes() {
		for _, l := range []strided{
			{shape: []int64{3}}, {shape: []int64{9}, dst: []int64{2}}, {shape: []int64{5, 7}, src: []int64{1, 5}}, {shape: []int64{8}, src: []int64{-1}},
		} {
			dst, src := e.newImage(t, 0, l.shape, l.dst, 0), e.newImage(t, 0, l.shape, l.src, 0)
			for _, from := range []*core.Tensor{e.onHost(src), e.onDevice(src)} {
				to, want := e.onDevice(dst), dst.copied(src)
				if err := e.dev.Copy(e.ctx, nil, to, from); err != nil {
					e.wantError(err, core.ErrNotSupported, "Copy(%v <- %v)", to, from)
					want = dst.bytes
				}
				if got := e.memoryOf(to); string(got) != string(want) {
					e.Errorf("%v <- %v: %s", to, from, difference(got, want))
				}
				_, _ = to.Close(), from.Close()
			}
		}
	}
}
