package backendtest_test

import (
	"fmt"
	"strings"

	"github.com/dlx-go/dlx/backends/backendtest"
)

// The rules that a device with semaphores is held to besides all others.
func ExampleCases() {
	for _, c := range backendtest.Cases() {
		if strings.HasPrefix(c.Name, "semaphore/") {
			fmt.Printf("%s (needs %v)\n\t%s\n", c.Name, c.Needs, c.Rule)
			break
		}
	}
	// Output:
	// semaphore/value (needs semaphores)
	// 	core.Semaphore: begins at 0; Signal sets it when the stream gets there
}
