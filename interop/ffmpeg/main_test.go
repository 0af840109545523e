//go:build cgo

package ffmpeg

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/ffmpeg/internal/avtest"
)

func TestMain(m *testing.M) {
	avtest.Quiet()
	coretest.Main(m)
}
