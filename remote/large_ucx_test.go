//go:build ucx && linux && cgo

package remote

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// largeVariable makes the test binary run TestLarge for the transports that UCX_TLS names.
const largeVariable = "DLX_REMOTE_LARGE"

// Large tensors go both ways at the same time. UCX looks after its connections every 20 seconds, which hides that a transfer
// has stalled, so that is switched off: the other process then ends with the stacks of its goroutines.
func TestLarge(t *testing.T) {
	if os.Getenv(largeVariable) != "" {
		large(t)
		return
	}
	for _, transport := range []string{"tcp", "sysv"} {
		t.Run(transport, func(t *testing.T) {
			if tls := os.Getenv("UCX_TLS"); tls != "" && !slices.Contains(strings.Split(tls, ","), transport) {
				t.Skipf("UCX_TLS is %s", tls)
			}
			args := []string{"-test.run=^TestLarge$", "-test.timeout=5m"}
			if testing.Short() {
				args = append(args, "-test.short")
			}
			p := exec.CommandContext(t.Context(), os.Args[0], args...)
			p.Env = append(os.Environ(), largeVariable+"=1", "UCX_TLS="+transport+",self", "UCX_KEEPALIVE_INTERVAL=inf")
			if out, err := p.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func large(t *testing.T) {
	rounds := 1
	if !testing.Short() {
		rounds = 30
	}
	d := host(t)
	a, b := connect(t, Options{})
	size := coretest.Times(32<<20, 64<<20, 64<<20) // more than is on its way at the same time
	x := row(t, size, 1)
	want := coretest.Pattern(size, 1)
	for range rounds {
		var group sync.WaitGroup
		for _, c := range []*Conn{a, b} {
			group.Go(func() {
				if _, err := c.Send(t.Context(), x); err != nil {
					t.Error(err)
				}
			})
			group.Go(func() {
				y, _, err := c.Receive(t.Context(), d)
				if err != nil {
					t.Error(err)
					return
				}
				defer y.Close()
				if got, err := core.Values[uint8](y); err != nil || string(got) != string(want) {
					t.Errorf("the elements differ: %v", err)
				}
			})
		}
		group.Wait()
	}
	if err := errors.Join(a.WaitReceived(t.Context()), b.WaitReceived(t.Context())); err != nil {
		t.Error(err)
	}
}
