//go:build !gl || !linux || !cgo

package parts

import "github.com/dlx-go/dlx/core"

// HasRenderer reports whether a program can have a context of OpenGL of its own.
const HasRenderer = false

// Renderer fails: this build has no OpenGL.
func Renderer() (core.Device, error) {
	return nil, core.Errorf(core.ErrNotSupported, "soak", "Renderer", "this build has no OpenGL")
}

// EndRenderer closes a device.
func EndRenderer(d core.Device) error { return d.Close() }

// Buffer fails: this build has no OpenGL.
func Buffer(d core.Device, fill []byte, s core.Spec) (*core.Tensor, error) {
	return nil, core.Errorf(core.ErrNotSupported, "soak", "Buffer", "this build has no OpenGL")
}
