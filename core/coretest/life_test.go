package coretest

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestALifeGoesOnAfterAnErrorAndClosesAll(t *testing.T) {
	CheckNoLeaks(t)
	b := NewBackend(Options{Submit: hostOrder})
	l := &Life{Context: t.Context()}
	d := l.Device(b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt}))
	if d == nil {
		t.Fatal(l.End())
	}
	var ended []string
	l.Later(func() error { ended = append(ended, "first"); return nil })
	l.Later(func() error { ended = append(ended, "second"); return core.ErrClosed })
	x, s := l.Tensor(core.Empty(t.Context(), d, core.TypeUint8, []int64{4}, core.AllocOptions{})), l.Stream(d.NewStream(t.Context()))
	y := l.Wrap(d.Alloc(t.Context(), 4, core.AllocOptions{}))
	b.Fail("Alloc", 1, core.ErrOutOfMemory)
	z := l.Tensor(core.Empty(t.Context(), d, core.TypeUint8, []int64{4}, core.AllocOptions{}))
	if x == nil || y == nil || s == nil || z != nil {
		t.Errorf("made were %v, %v, %v, and %v, which failed", x, y, s, z)
	}
	if !l.Copy(d, s, y, x) || l.Copy(d, s, z, x) {
		t.Error("what could be made is not copied, or what could not is")
	}
	if err := l.End(); !errors.Is(err, core.ErrOutOfMemory) || !errors.Is(err, core.ErrClosed) {
		t.Errorf("the life has the error %v", err)
	}
	wantEqual(t, ended, []string{"second", "first"}, "what was ended")
}
