//go:build !(ucx && linux && cgo)

package remote

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestUnbuilt(t *testing.T) {
	_, dialed := Dial(t.Context(), "127.0.0.1:1", Options{Insecure: true})
	_, listened := Listen("127.0.0.1:0", Options{Insecure: true})
	for _, err := range []error{Available(), dialed, listened} {
		if !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("error %v, want %q", err, core.ErrNotSupported)
		}
	}
	if Version() != "" {
		t.Errorf("version %q", Version())
	}
}
