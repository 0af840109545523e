package coretest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlx-go/dlx/core"
)

func TestWantErrorWantsTheSentinelAndACall(t *testing.T) {
	for _, c := range []struct {
		err   error
		wrong bool
	}{
		{err: core.Errorf(core.ErrClosed, "test", "Close", "again")},
		{err: fmt.Errorf("more: %w", core.Errorf(core.ErrClosed, "test", "Close", "again"))},
		{core.Errorf(core.ErrInvalid, "test", "Close", "another sentinel"), true},
		{core.Errorf(core.ErrClosed, "", "Close", "no backend"), true},
		{core.Errorf(core.ErrClosed, "test", "", "no call"), true},
		{core.ErrClosed, true},
		{errors.New("bare"), true},
		{nil, true},
	} {
		f := &failures{TB: t}
		if WantError(f, c.err, core.ErrClosed, "Close"); (len(f.all) > 0) != c.wrong {
			t.Errorf("of %v it says %q", c.err, f.all)
		}
	}
}

func TestDescriptorsAreCounted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells them")
	}
	before := Descriptors()
	r, w, err := os.Pipe()
	must(t, err)
	wantEqual(t, Descriptors()-before, 2, "descriptors of a pipe")
	time.AfterFunc(10*time.Millisecond, func() { _, _ = r.Close(), w.Close() })
	WantDescriptors(t, before, "a pipe that another thread closes")
	synctest.Test(t, func(t *testing.T) { // where waiting takes no time
		f := &failures{TB: t}
		if WantDescriptors(f, before+1, "nothing"); len(f.all) != 1 {
			t.Errorf("of a descriptor that is not there it says %q", f.all)
		}
	})
}

func (f *failures) Fatalf(format string, args ...any) { f.Errorf(format, args...) }

func TestARowHoldsWhatIsPut(t *testing.T) {
	d := OpenSimulated(t, Options{Submit: hostOrder})
	x := Row(t, d, 1000, core.AllocOptions{})
	for seed := range uint64(300) {
		Put(t, d, x, Pattern(1000, seed))
		wantEqual(t, Get(t, d, x), Pattern(1000, seed), fmt.Sprint("pattern ", seed))
	}
	if bytes.Equal(Pattern(1000, 1), Pattern(1000, 257)) {
		t.Error("two seeds have one pattern")
	}
}
