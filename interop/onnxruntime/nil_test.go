//go:build cgo && unix

package onnxruntime

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	sound := coretest.Keep(t)(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	const promoted = "it is a method of the embedded value, which Input and Output make"
	coretest.CheckNils(t, map[string]any{
		"Open": Open, "StreamOptions": StreamOptions, "Library": new(Library), "Value": new(Value), "Binding": new(Binding), "Library.Located": "it is for tests",
		"Value.DataType": promoted, "Value.GetONNXType": promoted,
	}, sound)
}
