package cpu

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestACopyOfATruncatedFileFails(t *testing.T) {
	d := open(t)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, size := range []int64{100, 300 << 10, 16 << 20} { // with few checks, and in one goroutine or several
		gone := coretest.Truncated(t, size)
		whole, err := core.FromSlice(make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		defer whole.Close()
		for _, s := range []core.Stream{nil, s} {
			coretest.CheckTruncated(t, d, s, whole, gone)
			coretest.CheckTruncated(t, d, s, gone, whole)
		}
	}
	if err := s.Synchronize(t.Context()); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("the stream tells of %v", err)
	}
}
