//go:build !(ucx && linux && cgo)

package ucx_test

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

func TestUnbuilt(t *testing.T) {
	_, err := ucx.NewWorker(1, ucx.Handler{})
	if !errors.Is(err, core.ErrNotSupported) || !errors.Is(ucx.Load(), core.ErrNotSupported) {
		t.Errorf("errors %v and %v, want %q", err, ucx.Load(), core.ErrNotSupported)
	}
}
