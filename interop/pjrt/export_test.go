//go:build cgo && unix

package pjrt

import (
	"unsafe"

	"github.com/dlx-go/dlx/core"
	xla "github.com/gomlx/go-xla/pjrt"
)

// APIOf returns the table of functions of the plugin of a client.
func APIOf(client *xla.Client) (unsafe.Pointer, error) {
	p, err := pluginOf(client)
	return p.api, err
}

// TensorThrough is Tensor by another table of functions.
func TensorThrough(api unsafe.Pointer, b *xla.Buffer) (*core.Tensor, error) {
	return tensorOf(plugin{api}, b)
}
