//go:build ucx && linux && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/remote"
)

// Each size is measured with each device, and what has arrived is compared.
func TestBenchWithAnotherMachine(t *testing.T) {
	latencies, bandwidths := latencySizes, bandwidthSizes
	latencySizes, bandwidthSizes = []int64{8, 64 << 10}, []int64{1 << 10, 64 << 10}
	t.Cleanup(func() { latencySizes, bandwidthSizes = latencies, bandwidths })
	s := startServe(t, "--bench", "--insecure", "--device", "ext_dev:0")
	o := dlx(t, "bench", "--peer", s.url+"/", "--insecure", "--device", "cpu,ext_dev:1", "--samples", "3", "--max-time", "1us", "--json")
	r := decode[peerBench](t, o, "bench")
	var cases []string
	for _, c := range r.Cases {
		way := "direct"
		if c.Device != core.CPU {
			way = "staged"
		}
		if c.Samples < 3 || c.Min <= 0 || c.Median < c.Min || c.Mechanism.String() != way || (c.Rate == 0) != (c.What == "latency") {
			t.Errorf("case %+v", c)
		}
		cases = append(cases, fmt.Sprint(c.Device, c.What, c.Bytes))
	}
	var want []string
	for _, device := range []string{"cpu", "ext_dev:1"} {
		for _, c := range []string{"latency 8", "latency 65536", "get 1024", "put 1024", "both 1024", "get 65536", "put 65536", "both 65536"} {
			want = append(want, device+" "+c)
		}
	}
	if got := strings.Join(cases, ","); o.code != exitOK || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(strings.Join(want, ","), " ", "") || len(r.Transports) == 0 || r.UCX == "" || peerScheme+r.Peer != s.url {
		t.Errorf("exit code %d: %s\n%+v", o.code, o.stderr, r)
	}
	if o := s.stop(); o.code != exitOK || len(decode[serveResult](t, o, "serve").Tensors) != 2 {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	s = startServe(t, tensors, "--insecure")
	if o := dlx(t, "bench", "--peer", strings.TrimPrefix(s.url, peerScheme), "--insecure"); o.code != exitFailed || !strings.Contains(o.stderr, "dlx serve --bench") {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	s.stop()
}

// A put that writes nothing, or a wrong byte, is found: also of a size whose bytes are the first of those that were put before, in a
// second measurement of the same server, and beside reads. The way of a put is its own.
func TestBenchFindsLostBytes(t *testing.T) {
	l, err := remote.Listen("127.0.0.1:0", remote.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	s := &serving{device: host, files: make(map[string]string)}
	if err := s.addBench(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.forget()
	c, err := remote.Dial(t.Context(), l.Addr().String(), remote.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := &peerMeasure{conn: c, samples: 3, maxTime: time.Nanosecond}
	for i, descriptor := range []*[]byte{&p.read, &p.write} {
		offer, err := l.Offer(s.tensors[i].tensor, s.tensors[i].options)
		if err != nil {
			t.Fatal(err)
		}
		defer offer.Close()
		*descriptor = offer.Descriptor()
	}
	measure := func() error {
		for _, n := range []int64{64 << 10, 1 << 10} {
			for _, what := range []string{"get", "put", "both"} {
				if err := p.bandwidth(t.Context(), host, what, n); err != nil {
					return err
				}
			}
		}
		return nil
	}
	const each = 4 // puts of a case: one that does not count, and 3
	nothing := func(context.Context, *core.Tensor) error { return nil }
	flipped := func(ctx context.Context, x *core.Tensor) error {
		data, err := core.ToSlice[byte](ctx, x)
		if err != nil {
			return err
		}
		data[len(data)-1] ^= 1
		y, err := core.FromSlice(data)
		if err != nil {
			return err
		}
		defer y.Close()
		_, err = c.PutRows(ctx, p.write, 0, y)
		return err
	}
	for _, lose := range []func(context.Context, *core.Tensor) error{nothing, flipped} {
		for lost, good := range []int{0, each, 2 * each, 3 * each, 4 * each} { // the last measurement loses nothing
			puts := 0
			p.put = func(ctx context.Context, descriptor []byte, first int64, x *core.Tensor) (remote.Report, error) {
				r := remote.Report{Mechanism: exchange.Staged}
				if puts++; puts > good {
					return r, lose(ctx, x)
				}
				_, err := c.PutRows(ctx, descriptor, first, x)
				return r, err
			}
			p.cases = nil
			var changed *remote.ChangedError
			switch err := measure(); {
			case lost < 4 && (!errors.As(err, &changed) || changed.Name != benchWrite):
				t.Errorf("after %d puts, bytes are lost: %v", good, err)
			case lost == 4 && err != nil:
				t.Errorf("without a loss: %v", err)
			}
			for _, x := range p.cases {
				if (x.Mechanism == exchange.Direct) != (x.What == "get") {
					t.Errorf("%s has the way %v", x.What, x.Mechanism)
				}
			}
		}
	}
}
