//go:build ucx && linux && cgo

package remote

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
)

// benchVariable makes the test binary the peer of a benchmark.
const benchVariable = "DLX_REMOTE_BENCH"

const benchPoll = 5 * time.Millisecond

// benchPeer receives tensors, and sends back those whose label says so. It does not return.
func benchPeer(address string) {
	ctx := context.Background()
	d, err := cpu.New().Open(ctx, core.CPU)
	if err == nil {
		var c *Conn
		if c, err = Dial(ctx, address, Options{Insecure: true, Poll: benchPoll}); err == nil {
			benchAnswer(ctx, c, d)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// benchAnswer receives tensors and sends those back that have a label, until the connection ends, and with it the process.
func benchAnswer(ctx context.Context, c *Conn, d core.Device) {
	for {
		x, r, err := c.Receive(ctx, d)
		if err != nil {
			os.Exit(0)
		}
		if r.Label != "" {
			_, _ = c.Send(ctx, x)
		}
		_ = x.Close()
	}
}

// BenchmarkRemote sends tensors to another process: to and fro, whose time is that of one way, and in one direction. Compare
// it with ucx_perftest -t ucp_am_lat -e and -t ucp_am_bw -e, for the same transport (UCX_TLS).
func BenchmarkRemote(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute) // a transfer that stalls fails
	defer cancel()
	d := host(b)
	l, err := Listen("127.0.0.1:0", Options{Insecure: true, Poll: benchPoll})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	p := exec.CommandContext(ctx, os.Args[0])
	p.Env = append(os.Environ(), childVariable+"="+l.Addr().String(), benchVariable+"=1")
	p.Stderr = os.Stderr
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Wait() }()
	c, err := l.Accept(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, n := range []int{8, 512, 4096} {
		x := row(b, n, 1)
		b.Run(fmt.Sprintf("latency/%d", n), func(b *testing.B) {
			var ways []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := c.SendLabeled(ctx, x, "back"); err != nil {
					b.Fatal(err)
				}
				y, _, err := c.Receive(ctx, d)
				if err != nil {
					b.Fatal(err)
				}
				_ = y.Close()
				ways = append(ways, time.Since(start)/2)
			}
			slices.Sort(ways) // on a busy machine, the lower ones say more than the mean
			b.ReportMetric(float64(ways[len(ways)/10].Nanoseconds())/1000, "us-first-tenth")
			b.ReportMetric(float64(ways[len(ways)/2].Nanoseconds())/1000, "us-median")
		})
	}
	for _, n := range []int{1 << 20, 4 << 20, 16 << 20, 64 << 20} {
		x := row(b, n, 1)
		b.Run(fmt.Sprintf("bandwidth/%dMiB", n>>20), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				if _, err := c.Send(ctx, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Logf("UCX %s: %v", Version(), c.Transports())
}
