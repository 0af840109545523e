//go:build linux && cgo

package gpusim_test

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// batchAttributes is CUmemcpyAttributes.
type batchAttributes struct {
	order int32
	_, _  location // hints
	_     uint32   // flags
}

const inStreamOrder = 1 // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM

// list is a C array.
func list[T any](values ...T) *T { return &values[0] }

// cuMemcpyBatchAsync of CUDA 12.8 and of CUDA 13: "The batch as a whole executes in stream order". The order of pageable
// memory is that of the stream, too: it is used when the copy runs.
func TestABatchCopiesInTheOrderOfItsStream(t *testing.T) {
	d := gpusimtest.Start(t)
	from, to, stream := memory(t, d, 3), memory(t, d, 3), d.NewStream()
	a, first, failed := batchAttributes{order: inStreamOrder}, uint64(0), uint64(7)
	dsts, srcs, sizes := list(to, to+1, to+2), list(from+2, from+1, from), list[uint64](1, 1, 1)
	d.Hold()
	fill(d, from, 5, 3, stream)
	d.OK("cuMemcpyBatchAsync_v2", dsts, srcs, sizes, 3, &a, &first, 1, stream)
	fill(d, from, 6, 3, stream)
	d.OK("cuStreamSynchronize", stream)
	d.Holds(to, []byte{5, 5, 5})
	d.OK("cuMemcpyBatchAsync", dsts, srcs, sizes, 3, &a, &first, 1, &failed, stream)
	d.OK("cuStreamSynchronize", stream)
	d.Holds(to, []byte{6, 6, 6})
	equal(t, "failIdx after a success", failed, ^uint64(0))

	pageable := []byte{1, 1}
	d.OK("cuMemcpyBatchAsync_v2", dsts, list(&pageable[0]), sizes, 1, &a, &first, 1, stream)
	pageable[0] = 2
	d.OK("cuStreamSynchronize", stream)
	wantByte(t, d, to, 2, "from pageable memory")
}

// "hStream - must not be legacy NULL stream"; "the first entry in attrsIdxs must always be 0. Also, each entry must be
// greater than the previous entry and the last entry should be less than count"; "numAttrs must be lesser than or equal
// to count"; "including the appropriate srcAccessOrder setting, otherwise the API will return CUDA_ERROR_INVALID_VALUE";
// "specifying any dependent copies within a batch will result in undefined behavior".
func TestWhatABatchRefuses(t *testing.T) {
	d := gpusimtest.Start(t)
	from, to, stream := memory(t, d, 2), memory(t, d, 2), d.NewStream()
	good := list(batchAttributes{order: inStreamOrder}, batchAttributes{order: inStreamOrder})
	dsts, srcs, sizes := list(to, to+1), list(from, from+1), list[uint64](1, 1)
	for _, c := range []struct {
		what       string
		count      int
		attributes *batchAttributes
		first      *uint64
		number     int
		stream     uint64
	}{
		{"the legacy stream", 2, good, list[uint64](0, 1), 1, legacy},
		{"no stream", 2, good, list[uint64](0, 1), 1, 0},
		{"no copies", 0, good, list[uint64](0, 1), 1, stream},
		{"no attributes", 2, good, list[uint64](0, 1), 0, stream},
		{"no list of attributes", 2, nil, list[uint64](0, 1), 1, stream},
		{"more attributes than copies", 1, good, list[uint64](0, 1), 2, stream},
		{"a first copy that is not 0", 2, good, list[uint64](1, 2), 1, stream},
		{"indices that do not grow", 2, good, list[uint64](0, 0), 2, stream},
		{"an index beyond the copies", 2, good, list[uint64](0, 2), 2, stream},
		{"no order", 2, &batchAttributes{}, list[uint64](0, 1), 1, stream},
	} {
		r := d.Result("cuMemcpyBatchAsync_v2", dsts, srcs, sizes, c.count, c.attributes, c.first, c.number, c.stream)
		equal(t, c.what, r, gpusimtest.InvalidValue)
	}
	var failed uint64
	d.Want(gpusimtest.InvalidValue, "cuMemcpyBatchAsync", dsts, list(from, 0), sizes, 2, good, list[uint64](0), 1, &failed, stream)
	equal(t, "the copy from an address of 0", failed, 1)
	d.OK("cuMemcpyBatchAsync_v2", dsts, srcs, sizes, 2, good, list[uint64](0, 1), 2, stream)
	d.OK("cuMemcpyBatchAsync_v2", list(from, to), list(to, to+1), sizes, 2, good, list[uint64](0), 1, stream)
	d.Noted()
	d.OK("cuStreamSynchronize", stream)
}

func TestOlderDriversHaveNoBatch(t *testing.T) {
	const variable = "DLX_GPUSIM_BATCH"
	d := gpusimtest.Start(t)
	if role() == "" {
		succeeds(t, "batch", variable+"=0")
		succeeds(t, "batch", variable+"=12")
		return
	}
	from, to, stream := memory(t, d, 1), memory(t, d, 1), d.NewStream()
	a, first, failed, size := batchAttributes{order: inStreamOrder}, uint64(0), uint64(0), uint64(1)
	want := gpusimtest.NotSupported
	d.Want(want, "cuMemcpyBatchAsync_v2", &to, &from, &size, 1, &a, &first, 1, stream)
	if os.Getenv(variable) == "12" {
		want = gpusimtest.Success
	}
	d.Want(want, "cuMemcpyBatchAsync", &to, &from, &size, 1, &a, &first, 1, &failed, stream)
	d.OK("cuStreamSynchronize", stream)
}
