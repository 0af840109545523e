package backendkit_test

import (
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
)

func TestCloseHooksRunTheLatestFirstUntilCancelled(t *testing.T) {
	var hooks backendkit.CloseHooks
	var ran []int
	hooks.BeforeClose(func() { ran = append(ran, 1) })
	cancel := hooks.BeforeClose(func() { ran = append(ran, 2) })
	hooks.RunCloseHooks()
	cancel()
	cancel()
	hooks.RunCloseHooks()
	if want := []int{2, 1, 1}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}
