//go:build cgo && unix

package onnxruntime_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/onnxruntime"
)

// libraryPath is the library of ONNX Runtime that make installs.
var libraryPath = os.Getenv("DLX_ONNXRUNTIME_LIBRARY")

func TestMain(m *testing.M) {
	if libraryPath == "" {
		libraryPath = "../../.venv-modules/libonnxruntime.so"
	}
	if _, err := os.Stat(libraryPath); err != nil {
		fmt.Fprintln(os.Stderr, "no library of ONNX Runtime: run make .venv-modules/ready, or set DLX_ONNXRUNTIME_LIBRARY:", err)
		os.Exit(1)
	}
	coretest.Main(m)
}

func open(t testing.TB) *onnxruntime.Library {
	t.Helper()
	lib, err := onnxruntime.Open(libraryPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	})
	return lib
}
