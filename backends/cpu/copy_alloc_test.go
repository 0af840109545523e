//go:build !race && !asan && !msan

package cpu

import (
	"slices"
	"testing"
)

func TestASmallCopyAllocatesNothing(t *testing.T) {
	d := open(t)
	dst, src := values(t, make([]int32, 1024)), values(t, sequence(1024))
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Copy(ctx, nil, dst, src); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a copy allocates %v times", n)
	}
	if got := elements[int32](t, dst); !slices.Equal(got, sequence(1024)) {
		t.Error("the elements did not arrive")
	}
	if e := dst.Ready(); e != nil {
		t.Errorf("a copy that is over left the event %v", e)
	}
}
