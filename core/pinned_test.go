package core_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// loses names the process that TestLostReferenceOfASlice makes its mistake in.
const loses = "DLX_CORE_LOSES_A_REFERENCE"

// A reference that is lost costs its memory, but not the program, which the
// runtime ends if a pinned slice is forgotten.
func TestLostReferenceOfASlice(t *testing.T) {
	if os.Getenv(loses) == "" {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), loses+"=1")
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("the process ended with %v, want 1 for the leak that coretest finds", err)
		}
		for _, want := range []string{"survived", "left 1 of core.Buffer open"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the process does not say %q, but:\n%s", want, out)
			}
		}
		return
	}
	func() {
		v, err := core.FromSlice([]int64{1, 2, 3})
		if err != nil {
			t.Fatal(err)
		}
		b, err := v.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Retain(); err != nil { // nobody gives this back
			t.Fatal(err)
		}
		mustClose(t, v)
	}()
	leaveChunk(t)
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	t.Log("survived")
}
