//go:build oneapi && linux && cgo

package oneapi_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
)

func TestConformance(t *testing.T) { backendtest.Run(t, open, backendtest.Options{}) }

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	backendtest.Programs(t, open, 1000, backendtest.Options{})
}

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, open) }
