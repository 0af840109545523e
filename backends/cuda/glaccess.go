//go:build cuda

package cuda

// GLAccess is what CUDA does with a buffer of OpenGL while it is mapped.
type GLAccess uint32

// The ways to use a buffer.
const (
	GLReadWrite    GLAccess = iota
	GLReadOnly              // its tensors are read-only
	GLWriteDiscard          // what it held before Map is lost
)
