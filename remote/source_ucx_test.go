//go:build ucx && linux && cgo

package remote

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// tensorfile.LoadFrom takes offers onto the host and onto a device, whole and by parts.
func TestSource(t *testing.T) {
	keep := coretest.Keep(t)
	a, b := connect(t, Options{})
	large := keep(row(t, 3*pieceBytes, 1).Reshape(6, pieceBytes/2))
	small := keep(row(t, 12, 2).Reshape(4, 3))
	offer(t, a, large, OfferOptions{Name: "layers/large"})
	offer(t, a, small, OfferOptions{Name: "small"})
	list, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSource(b, list)
	if err != nil {
		t.Fatal(err)
	}
	s.Verify = true
	for _, d := range []core.Device{host(t), coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})} {
		l, err := tensorfile.LoadFrom(t.Context(), s, d, tensorfile.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]*core.Tensor{"layers/large": large, "small": small} {
			if sum, err := Sum(t.Context(), l.Tensors[name]); err != nil || sum != sumOf(t, x) {
				t.Errorf("tensor %q on %v differs: %v", name, d.ID(), err)
			}
		}
		if f := l.Report.Files[0]; f.Path != "ucx://"+b.Peer().String() || !strings.HasPrefix(f.Reason, "by ") || f.Bytes != large.NumBytes()+12 {
			t.Errorf("report %+v", f)
		}
		_ = l.Close()
		before := b.Stats().BytesReceived
		l, err = tensorfile.LoadFrom(t.Context(), s, d, tensorfile.LoadOptions{Only: []string{"layers*"}, Slices: []tensorfile.Slice{{Index: 1, Count: 3}}})
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := Sum(t.Context(), l.Tensors["layers/large"]); err != nil || sum != sumOf(t, keep(large.Slice(0, 2, 4, 1))) {
			t.Errorf("the part on %v differs: %v", d.ID(), err)
		}
		if n := b.Stats().BytesReceived - before; n != pieceBytes {
			t.Errorf("%d bytes were received for the part", n)
		}
		_ = l.Close()
	}
	if _, err := NewSource(b, append(list, list[0])); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a name twice: %v", err)
	}
	if _, err := NewSource(b, []Listed{{"x", []byte("no descriptor")}}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("no descriptor: %v", err)
	}
	if _, err := s.Fetch(t.Context(), "nothing", 0, -1, host(t)); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("no such offer: %v", err)
	}
}

func sumOf(t *testing.T, x *core.Tensor) [32]byte {
	t.Helper()
	sum, err := Sum(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Elements that are not those of the peer are an error.
func TestChangedElements(t *testing.T) {
	a, b := connect(t, Options{})
	x, y := row(t, 100, 1), row(t, 100, 2)
	f := offer(t, a, x, OfferOptions{Name: "x"})
	s, err := NewSource(b, []Listed{{"x", f.Descriptor()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.check(t.Context(), "x", 0, -1, x); err != nil {
		t.Error(err)
	}
	var changed *ChangedError
	if err := s.check(t.Context(), "x", 0, -1, y); !errors.As(err, &changed) || changed.Name != "x" || !errors.Is(err, core.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	if err := s.check(t.Context(), "x", 0, 99, x); !errors.As(err, &changed) {
		t.Errorf("other rows: error %v", err)
	}
}
