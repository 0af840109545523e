//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }
