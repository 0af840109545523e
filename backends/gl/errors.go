//go:build gl && linux && cgo

package gl

import (
	"strconv"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
)

// codes are what glGetError and glGetGraphicsResetStatus return, with their
// meaning in dlx.
var codes = map[uint32]struct {
	name     string
	sentinel error
}{
	gl.INVALID_ENUM:                  {"GL_INVALID_ENUM", core.ErrNotSupported},
	gl.INVALID_VALUE:                 {"GL_INVALID_VALUE", core.ErrInvalid},
	gl.INVALID_OPERATION:             {"GL_INVALID_OPERATION", core.ErrInvalid},
	gl.STACK_OVERFLOW:                {"GL_STACK_OVERFLOW", core.ErrInvalid},
	gl.STACK_UNDERFLOW:               {"GL_STACK_UNDERFLOW", core.ErrInvalid},
	gl.OUT_OF_MEMORY:                 {"GL_OUT_OF_MEMORY", core.ErrOutOfMemory},
	gl.INVALID_FRAMEBUFFER_OPERATION: {"GL_INVALID_FRAMEBUFFER_OPERATION", core.ErrInvalid},
	gl.CONTEXT_LOST:                  {"GL_CONTEXT_LOST", core.ErrDeviceLost},
	gl.GUILTY_CONTEXT_RESET:          {"GL_GUILTY_CONTEXT_RESET", core.ErrDeviceLost},
	gl.INNOCENT_CONTEXT_RESET:        {"GL_INNOCENT_CONTEXT_RESET", core.ErrDeviceLost},
	gl.UNKNOWN_CONTEXT_RESET:         {"GL_UNKNOWN_CONTEXT_RESET", core.ErrDeviceLost},
}

// failure is the error that call failed with a code.
func failure(call string, code uint32) *core.Error {
	c, ok := codes[code]
	if !ok {
		c.name, c.sentinel = "GL error 0x"+strconv.FormatUint(uint64(code), 16), core.ErrInvalid
	}
	e := core.Errorf(c.sentinel, "gl", call, "%s", c.name)
	e.Code = int64(code)
	return e
}
