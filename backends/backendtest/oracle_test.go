package backendtest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// The oracle and the slow copy of coretest know nothing of each other.
func TestOracleAgreesWithAnotherSlowCopy(t *testing.T) {
	e := &env{TB: t, rng: rand.New(rand.NewPCG(1, 2))}
	types := append(elementTypes(), subByteTypes()...)
	for range 300 {
		typ := types[e.rng.IntN(len(types))]
		shape := make([]int64, e.rng.IntN(5))
		for a := range shape {
			shape[a] = e.rng.Int64N(5)
		}
		dst := e.newImage(typ, 0, shape, randomStrides(e.rng, shape, false), 0)
		src := e.newImage(typ, 0, shape, randomStrides(e.rng, shape, true), e.rng.Int64N(3))
		want := dst.copied(src)
		if err := coretest.CopyNaive(e.onHost(dst), e.onHost(src)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst.bytes, want) {
			t.Errorf("%v%v strides %v <- %v: %s", typ, shape, dst.spec.Strides, src.spec.Strides, difference(dst.bytes, want))
		}
	}
}

func TestImagesHaveGuards(t *testing.T) {
	e := &env{TB: t, rng: rand.New(rand.NewPCG(1, 2))}
	for _, typ := range append(elementTypes(), subByteTypes()...) {
		shape := []int64{3, 4}
		m := e.newImage(typ, 0, shape, randomStrides(e.rng, shape, false), 0)
		low, high := m.layout.Extent()
		first, last := m.spec.Offset*8+low*m.bits, m.spec.Offset*8+high*m.bits
		if first < guard*8 || int64(len(m.bytes))*8-last < guard*8 {
			t.Errorf("%v: elements from bit %d to %d of %d bytes leave less than %d bytes around them", typ, first, last, len(m.bytes), guard)
		}
	}
}
