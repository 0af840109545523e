//go:build linux && cgo

package gpusim_test

import (
	"os"
	"os/exec"
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

// cuMemcpyBatchAsync of CUDA 12.8 and of CUDA 13: "The batch as a whole executes in stream order".
func TestABatchCopiesInTheOrderOfItsStream(t *testing.T) {
	d := gpusimtest.Start(t)
	from, to, stream := memory(t, d, 3), memory(t, d, 3), d.NewStream()
	a, first, failed := batchAttributes{order: inStreamOrder}, uint64(0), uint64(7)
	dsts, srcs, sizes := []uint64{to, to + 1, to + 2}, []uint64{from + 2, from + 1, from}, []uint64{1, 1, 1}
	hold(t, d)
	d.OK("cuMemsetD8Async", from, 5, 3, stream)
	d.OK("cuMemcpyBatchAsync_v2", &dsts[0], &srcs[0], &sizes[0], 3, &a, &first, 1, stream)
	d.OK("cuMemsetD8Async", from, 6, 3, stream)
	d.OK("cuStreamSynchronize", stream)
	d.Holds(to, []byte{5, 5, 5})
	d.OK("cuMemcpyBatchAsync", &dsts[0], &srcs[0], &sizes[0], 3, &a, &first, 1, &failed, stream)
	d.OK("cuStreamSynchronize", stream)
	d.Holds(to, []byte{6, 6, 6})
	if failed != ^uint64(0) {
		t.Errorf("failIdx is %d after a success", failed)
	}
}

// The order of pageable memory is that of the stream, too: it is used when the copy runs.
func TestABatchUsesPageableMemoryLate(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 2), d.NewStream()
	pageable := []byte{1, 1}
	a, first := batchAttributes{order: inStreamOrder}, uint64(0)
	hold(t, d)
	d.OK("cuMemcpyBatchAsync_v2", &[]uint64{ptr}[0], &[]*byte{&pageable[0]}[0], &[]uint64{1}[0], 1, &a, &first, 1, stream)
	pageable[0] = 2
	d.OK("cuStreamSynchronize", stream)
	wantByte(t, d, ptr, 2, "from pageable memory")
}

// "hStream - must not be legacy NULL stream"; "the first entry in attrsIdxs must always be 0. Also, each entry must be
// greater than the previous entry and the last entry should be less than count"; "numAttrs must be lesser than or equal
// to count"; "including the appropriate srcAccessOrder setting, otherwise the API will return CUDA_ERROR_INVALID_VALUE".
func TestWhatABatchRefuses(t *testing.T) {
	d := gpusimtest.Start(t)
	from, to, stream := memory(t, d, 2), memory(t, d, 2), d.NewStream()
	two := func(n uint64) *uint64 { return &[]uint64{n, n + 1}[0] }
	good := []batchAttributes{{order: inStreamOrder}, {order: inStreamOrder}}
	dsts, srcs, sizes := two(to), two(from), &[]uint64{1, 1}[0]
	refused := func(what string, args ...any) {
		t.Helper()
		if r := d.Result("cuMemcpyBatchAsync_v2", args...); r != gpusimtest.InvalidValue {
			t.Errorf("%s: %v", what, r)
		}
	}
	refused("the legacy stream", dsts, srcs, sizes, 2, &good[0], two(0), 1, legacy)
	refused("no stream", dsts, srcs, sizes, 2, &good[0], two(0), 1, 0)
	refused("no copies", dsts, srcs, sizes, 0, &good[0], two(0), 1, stream)
	refused("no attributes", dsts, srcs, sizes, 2, &good[0], two(0), 0, stream)
	refused("no list of attributes", dsts, srcs, sizes, 2, nil, two(0), 1, stream)
	refused("more attributes than copies", dsts, srcs, sizes, 1, &good[0], two(0), 2, stream)
	refused("a first copy that is not 0", dsts, srcs, sizes, 2, &good[0], two(1), 1, stream)
	refused("indices that do not grow", dsts, srcs, sizes, 2, &good[0], &[]uint64{0, 0}[0], 2, stream)
	refused("an index beyond the copies", dsts, srcs, sizes, 2, &good[0], &[]uint64{0, 2}[0], 2, stream)
	refused("no order", dsts, srcs, sizes, 2, &batchAttributes{}, two(0), 1, stream)
	var failed uint64
	if r := d.Result("cuMemcpyBatchAsync", dsts, &[]uint64{from, 0}[0], sizes, 2, &good[0], two(0), 1, &failed, stream); r != gpusimtest.InvalidValue || failed != 1 {
		t.Errorf("an address of 0: %v at %d", r, failed)
	}
	d.OK("cuMemcpyBatchAsync_v2", dsts, srcs, sizes, 2, &good[0], two(0), 2, stream)
	d.OK("cuStreamSynchronize", stream)
}

// "specifying any dependent copies within a batch will result in undefined behavior"
func TestABatchOfDependentCopiesIsMisuse(t *testing.T) {
	d := gpusimtest.Start(t)
	p, stream := memory(t, d, 4), d.NewStream()
	a, first := batchAttributes{order: inStreamOrder}, uint64(0)
	d.OK("cuMemcpyBatchAsync_v2", &[]uint64{p, p + 1}[0], &[]uint64{p + 1, p + 2}[0], &[]uint64{1, 1}[0], 2, &a, &first, 1, stream)
	d.Noted()
	d.OK("cuStreamSynchronize", stream)
}

// batchWanted asks this program, run again, for the versions that there are.
const batchWanted = "GPUSIM_TEST_BATCH_WANTED"

func TestOlderDriversHaveNoBatch(t *testing.T) {
	const notSupported gpusimtest.Result = 801
	d := gpusimtest.Start(t)
	if os.Getenv(batchWanted) == "" {
		for _, version := range []string{"0", "12"} {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
			c.Env = append(os.Environ(), "DLX_GPUSIM_BATCH="+version, batchWanted+"="+version)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("version %s: %v\n%s", version, err, out)
			}
		}
		return
	}
	from, to, stream := memory(t, d, 1), memory(t, d, 1), d.NewStream()
	a, first, failed, size := batchAttributes{order: inStreamOrder}, uint64(0), uint64(0), uint64(1)
	d.Want(notSupported, "cuMemcpyBatchAsync_v2", &to, &from, &size, 1, &a, &first, 1, stream)
	want := notSupported
	if os.Getenv(batchWanted) == "12" {
		want = 0
	}
	if r := d.Result("cuMemcpyBatchAsync", &to, &from, &size, 1, &a, &first, 1, &failed, stream); r != want {
		t.Errorf("the older function: %v, want %v", r, want)
	}
	d.OK("cuStreamSynchronize", stream)
}
