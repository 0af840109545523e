package foreign_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/benchmarks/internal/foreign"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// needC skips where the C functions are not in the build, and says so.
func needC(t *testing.T) {
	t.Helper()
	if err := foreign.Available(); err != nil {
		if !errors.Is(err, core.ErrNotSupported) {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func exported() int64 { return core.Live()["dlpack.Export"] }

func TestConsumersDeleteWhatTheyAreGiven(t *testing.T) {
	needC(t)
	tensor, err := core.FromSlice([]int32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	defer tensor.Close()
	var out [3]*dlpack.ManagedTensorVersioned
	for i := range out {
		if out[i], err = dlpack.Export(tensor); err != nil {
			t.Fatal(err)
		}
	}
	foreign.EmptyCall()
	foreign.Consume(out[0])
	if n := exported(); n != 2 {
		t.Errorf("%d exports are out after Consume, want 2", n)
	}
	foreign.DeleteAll(nil)
	foreign.DeleteAll(out[1:])
	if n := exported(); n != 0 {
		t.Errorf("%d exports are out after DeleteAll, want 0", n)
	}
}

func TestTheProducersTensorMayBeTakenAgainAndAgain(t *testing.T) {
	needC(t)
	before := foreign.Deleted()
	for range 3 {
		tensor, err := dlpack.Import(foreign.Produce(), dlpack.ImportOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if tensor.String() != "float32[2 3 4] on cpu" {
			t.Errorf("it is %v", tensor)
		}
		tensor.Close()
	}
	if n := foreign.Deleted() - before; n != 3 {
		t.Errorf("the deleter was called %d times, want 3", n)
	}
}

func TestMemcpyCopiesWhatDstHasRoomFor(t *testing.T) {
	src := []byte("0123456789")
	dst := make([]byte, 5)
	foreign.Memcpy(dst[:4], src)
	if !bytes.Equal(dst, []byte("0123\x00")) {
		t.Errorf("%q", dst)
	}
	foreign.Memcpy(nil, nil)
}
