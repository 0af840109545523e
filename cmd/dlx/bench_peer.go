package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/remote"
)

// The tensors that dlx serve --bench offers, by name.
const (
	benchRead  = "dlx bench/read"
	benchWrite = "dlx bench/write" // is writable
)

// The sizes that are measured, which tests make smaller. The tensors of dlx serve --bench have the last one.
var (
	latencySizes   = []int64{8, 64, 512, 4 << 10, 8 << 10, 32 << 10, 64 << 10}
	bandwidthSizes = []int64{64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}
)

// peerBench is the result of `dlx bench --peer`.
type peerBench struct {
	Peer       string         `json:"peer"`
	UCX        string         `json:"ucx"`        // version of the library
	Transports []string       `json:"transports"` // that UCX has chosen
	Cases      []peerCase     `json:"cases"`
	Perftest   []perftestLine `json:"perftest,omitempty"` // how to measure the same without dlx
}

// peerCase is a measurement.
type peerCase struct {
	Device    core.DeviceID      `json:"device"` // of this side
	What      string             `json:"what"`   // "latency", "get", "put" or "both"
	Bytes     int64              `json:"bytes"`  // of a tensor
	Mechanism exchange.Mechanism `json:"mechanism"`
	Samples   int                `json:"samples"`
	Min       time.Duration      `json:"min_ns"`
	Median    time.Duration      `json:"median_ns"`
	Rate      float64            `json:"bytes_per_second"` // of the median
}

// perftestLine is a command for one of the two machines.
type perftestLine struct {
	Where   string `json:"where"` // "here" or "there"
	Command string `json:"command"`
}

func (r peerBench) writeText(w io.Writer) {
	row(w, "DEVICE", "WHAT", "BYTES", "WAY", "SAMPLES", "MIN", "MEDIAN", "GB/S")
	for _, c := range r.Cases {
		row(w, c.Device.String(), c.What, exactBytes(c.Bytes), c.Mechanism.String(), fmt.Sprint(c.Samples), formatDuration(c.Min), formatDuration(c.Median), formatRate(c.Rate/1e9))
	}
	fmt.Fprintf(w, "\npeer: %s, UCX %s by %s, verified: yes\n", r.Peer, r.UCX, strings.Join(r.Transports, " and "))
	if len(r.Perftest) > 0 {
		fmt.Fprintln(w, "\nThe same without dlx:")
	}
	for _, p := range r.Perftest {
		row(w, "  "+p.Where, p.Command)
	}
}

// checkPeer returns an error if flags are wrong with --peer.
func (f *benchFlags) checkPeer(flags *pflag.FlagSet) error {
	useful := append(f.auth.names(), "peer", "poll", "device", "samples", "max-time", "json", "log-level", "log-format", "help")
	var err error
	flags.Visit(func(x *pflag.Flag) {
		if !slices.Contains(useful, x.Name) {
			err = errors.Join(err, noEffect(flags, "with --peer", x.Name))
		}
	})
	if err != nil {
		return err
	}
	if f.peer, err = peerAddress(f.peer); err != nil {
		return err
	}
	if err := f.measureFlags.check(); err != nil {
		return err
	}
	return f.auth.check()
}

// benchPeer measures transfers to and from dlx serve --bench. The result has what was measured also if there is an error.
func (a *app) benchPeer(ctx context.Context, f benchFlags) (r peerBench, err error) {
	if len(f.devices) == 0 {
		f.devices = []string{core.CPU.String()}
	}
	options, err := f.auth.options(a)
	if err != nil {
		return r, err
	}
	c, err := dial(ctx, f.peer, options)
	if err != nil {
		return r, err
	}
	defer c.Close()
	p := &peerMeasure{conn: c, put: c.PutRows, samples: f.samples, maxTime: f.maxTime}
	list, err := c.List(ctx)
	if err != nil {
		return r, err
	}
	for _, o := range list {
		switch o.Name {
		case benchRead:
			p.read = o.Descriptor
		case benchWrite:
			p.write = o.Descriptor
		}
	}
	if p.read == nil || p.write == nil {
		return r, core.Errorf(core.ErrInvalid, "dlx", "bench", "%s does not measure: start dlx serve --bench there", f.peer)
	}
	for _, name := range f.devices {
		if err = p.device(ctx, a, name); err != nil {
			break
		}
	}
	r = peerBench{Peer: f.peer, UCX: remote.Version(), Transports: c.Transports(), Cases: p.cases, Perftest: perftest(f.peer)}
	return r, err
}

// peerMeasure measures over one connection.
type peerMeasure struct {
	conn        *remote.Conn
	put         func(ctx context.Context, descriptor []byte, first int64, t *core.Tensor) (remote.Report, error) // conn.PutRows, except in a test
	read, write []byte                                                                                           // descriptors
	samples     int
	maxTime     time.Duration
	cases       []peerCase
}

// device measures with the memory of a device.
func (p *peerMeasure) device(ctx context.Context, a *app, name string) (err error) {
	id, err := benchmarks.FindDevice(ctx, a.registry, name)
	if err != nil {
		return err
	}
	d, err := a.registry.Open(ctx, id)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, d.Close()) }()
	for _, n := range latencySizes {
		if err := p.latency(ctx, d, n); err != nil {
			return err
		}
	}
	for _, n := range bandwidthSizes {
		for _, what := range []string{"get", "put", "both"} {
			if err := p.bandwidth(ctx, d, what, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// randomTensor returns a tensor of n bytes on a device, which no other tensor has, so that what did not arrive differs.
func randomTensor(ctx context.Context, d core.Device, n int64) (*core.Tensor, error) {
	data := make([]byte, n)
	_, _ = rand.Read(data) // never fails
	t, err := core.FromSlice(data)
	if err != nil || d.ID() == core.CPU {
		return t, err
	}
	defer t.Close()
	x, _, err := exchange.To(ctx, t, d, exchange.Options{Copy: exchange.Always})
	return x, err
}

// latency measures half of the time in which a tensor goes to the peer and comes back.
func (p *peerMeasure) latency(ctx context.Context, d core.Device, n int64) error {
	x, err := randomTensor(ctx, d, n)
	if err != nil {
		return err
	}
	defer x.Close()
	var last *core.Tensor
	defer func() { _ = last.Close() }()
	c := peerCase{Device: d.ID(), What: "latency", Bytes: n}
	times, err := p.repeat(ctx, 10*p.samples, func() error {
		sent, err := p.conn.Send(ctx, x)
		if err != nil {
			return err
		}
		y, _, err := p.conn.Receive(ctx, d)
		if err != nil {
			return err
		}
		_ = last.Close()
		last, c.Mechanism = y, sent.Mechanism
		return y.WaitReady(ctx)
	})
	if err != nil {
		return err
	}
	for i := range times {
		times[i] /= 2
	}
	p.add(c, times, n)
	want, err := remote.Sum(ctx, x)
	if err != nil {
		return err
	}
	return sameSum(ctx, last, want, "echo")
}

// bandwidth measures reads ("get"), writes ("put") or both at once ("both"), and compares what has arrived.
func (p *peerMeasure) bandwidth(ctx context.Context, d core.Device, what string, n int64) error {
	x, err := randomTensor(ctx, d, n)
	if err != nil {
		return err
	}
	defer x.Close()
	var last *core.Tensor
	defer func() { _ = last.Close() }()
	var got, sent exchange.Mechanism
	get := func() error {
		y, r, err := p.conn.FetchRows(ctx, p.read, 0, n, d)
		if err != nil {
			return err
		}
		_ = last.Close()
		last, got = y, r.Mechanism
		return y.WaitReady(ctx)
	}
	put := func() error {
		r, err := p.put(ctx, p.write, 0, x)
		sent = r.Mechanism
		return err
	}
	do, bytes := get, n
	switch what {
	case "put":
		do = put
	case "both":
		bytes = 2 * n
		do = func() error {
			done := make(chan error, 1)
			go func() { done <- put() }()
			err := get()
			return errors.Join(err, <-done)
		}
	}
	times, err := p.repeat(ctx, p.samples, do)
	if err != nil {
		return err
	}
	// Of both, the way that copies more.
	p.add(peerCase{Device: d.ID(), What: what, Bytes: n, Mechanism: max(got, sent)}, times, bytes)
	if what != "put" {
		if err := p.compare(ctx, last, p.read, benchRead); err != nil {
			return err
		}
	}
	if what != "get" {
		return p.compare(ctx, x, p.write, benchWrite)
	}
	return nil
}

// compare returns a *remote.ChangedError if the first bytes of a tensor of the peer are not those of t.
func (p *peerMeasure) compare(ctx context.Context, t *core.Tensor, descriptor []byte, name string) error {
	want, err := p.conn.Checksum(ctx, descriptor, 0, t.NumBytes())
	if err != nil {
		return err
	}
	return sameSum(ctx, t, want, name)
}

// sameSum returns a *remote.ChangedError if a tensor has another checksum.
func sameSum(ctx context.Context, t *core.Tensor, want [32]byte, name string) error {
	got, err := remote.Sum(ctx, t)
	if err == nil && got != want {
		err = &remote.ChangedError{Name: name}
	}
	return err
}

// repeat returns how long do takes: n times after one that does not count, or fewer, but at least 3, if that takes longer than
// --max-time.
func (p *peerMeasure) repeat(ctx context.Context, n int, do func() error) ([]time.Duration, error) {
	if err := do(); err != nil {
		return nil, err
	}
	var times []time.Duration
	for begin := time.Now(); len(times) < 3 || len(times) < n && time.Since(begin) < p.maxTime; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}

// add adds a case, of which each time is that of so many bytes.
func (p *peerMeasure) add(c peerCase, times []time.Duration, bytes int64) {
	slices.Sort(times)
	c.Samples, c.Min, c.Median = len(times), times[0], times[(len(times)-1)/2]
	if c.What != "latency" {
		c.Rate = float64(bytes) / max(c.Median, 1).Seconds()
	}
	p.cases = append(p.cases, c)
}

// perftest returns the commands that measure the same with ucx_perftest, if that is installed here.
func perftest(peer string) []perftestLine {
	if _, err := exec.LookPath("ucx_perftest"); err != nil {
		return nil
	}
	host, _, _ := net.SplitHostPort(peer)
	const port = " -p 13337"
	return []perftestLine{
		{"there", "ucx_perftest" + port + " (once for each line below)"},
		{"here", "ucx_perftest " + host + port + " -t ucp_am_lat -s 8"},
		{"here", fmt.Sprintf("ucx_perftest %s%s -t ucp_am_bw -s %d -n 100", host, port, 4<<20)},
	}
}

// addBench adds what dlx bench --peer needs.
func (s *serving) addBench(ctx context.Context) error {
	for _, name := range []string{benchRead, benchWrite} {
		if err := s.claim(name, "--bench"); err != nil {
			return err
		}
		t, err := randomTensor(ctx, s.device, bandwidthSizes[len(bandwidthSizes)-1])
		if err != nil {
			return err
		}
		s.tensors = append(s.tensors, loadedTensor{t, remote.OfferOptions{Name: name, Writable: name == benchWrite}})
	}
	return nil
}

// echo sends all tensors of a peer back until the connection ends.
func (s *serving) echo(ctx context.Context, c *remote.Conn) {
	for {
		t, _, err := c.Receive(ctx, s.device)
		if err != nil {
			return
		}
		_, err = c.Send(ctx, t)
		if err == nil {
			s.echoed.Add(t.NumBytes())
		}
		_ = t.Close()
		if err != nil {
			return
		}
	}
}
