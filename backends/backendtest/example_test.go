package backendtest_test

import (
	"fmt"
	"strings"

	"github.com/dlx-go/dlx/backends/backendtest"
)

// The first rule for devices with semaphores.
func ExampleCases() {
	for _, c := range backendtest.Cases() {
		if strings.HasPrefix(c.Name, "semaphore/") {
			fmt.Printf("%s (needs %v)\n\t%s\n", c.Name, c.Needs, c.Rule)
			break
		}
	}
	// Output:
	// semaphore/value (needs semaphores)
	// 	core.Semaphore: begins at 0; Signal sets it when the stream reaches the signal
}
