package image

import (
	"image"
	"image/color"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// wide is an image of one color that has the size of its value.
type wide image.Point

func (w wide) ColorModel() color.Model { return color.GrayModel }
func (w wide) Bounds() image.Rectangle { return image.Rectangle{Max: image.Point(w)} }
func (w wide) At(int, int) color.Color { return color.Gray{7} }

// A copy that the system has no memory for is an error.
func TestMemoryThatTheSystemRefuses(t *testing.T) {
	if !coretest.LimitMemory(t) {
		return
	}
	for _, w := range []wide{{1 << 17, 1 << 17}, {1 << 20, 1 << 20}, {1 << 40, 1}, {1 << 31, 1 << 31}} {
		_, err := Copy(w)
		coretest.WantError(t, err, core.ErrOutOfMemory, image.Point(w).String())
	}
}
