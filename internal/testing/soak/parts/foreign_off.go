//go:build !cgo || windows

package parts

import "github.com/dlx-go/dlx/core"

// HasC reports whether memory of C can be had: [Malloc] and [Foreign].
const HasC = false

// Malloc fails: there is no C.
func Malloc(skip, size int64) (core.Memory, error) {
	return core.Memory{}, core.Errorf(core.ErrNotSupported, "soak", "malloc", "this program was built without cgo")
}

// Foreign fails: there is no C.
func Foreign(legacy bool, size, byteOffset int64, fill []byte, s core.Spec) (*core.Tensor, error) {
	return nil, core.Errorf(core.ErrNotSupported, "soak", "malloc", "this program was built without cgo")
}
