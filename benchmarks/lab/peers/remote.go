package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
	"github.com/dlx-go/dlx/remote"
)

// patience bounds how long a process waits for the other one.
const patience = 20 * time.Second

// The two processes of package remote are started with remoteFlag and what they are to be: "measure", or the address to which
// the other one connects. UCX reads its transports from the environment, once for each process. A test binary knows these
// processes by remoteVariable.
const (
	remoteFlag     = "-process-of-package-remote"
	remoteVariable = "DLX_PEERS_REMOTE"
	remoteMeasure  = "measure"
	remotePeer     = "remote" // the name of the adapter
	remotePoll     = 5 * time.Millisecond
)

// remoteOrder is what this program tells the process that measures.
type remoteOrder struct {
	Do   string `json:"do"` // latency or bandwidth
	Size int64  `json:"size"`
	N    int    `json:"n"`
}

// remoteCases are the runs of ucx_perftest beside which package remote is measured. With -e, ucx_perftest asks UCX to
// notice that a peer is gone, as package remote does.
func remoteCases(small bool) []ucxCase {
	var cases []ucxCase
	latencies, sizes := []int64{8, 512, 4 << 10}, []int64{64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}
	if small {
		latencies, sizes = []int64{8}, []int64{64 << 10}
	}
	for _, tls := range []string{"tcp", "posix"} {
		for _, size := range latencies {
			cases = append(cases, ucxCase{test: "ucp_am_lat", tls: tls + ",self", size: size, iterations: 5000, peers: true})
		}
		for _, size := range sizes {
			cases = append(cases, ucxCase{test: "ucp_am_bw", tls: tls + ",self", size: size, iterations: messagesOf(size), peers: true})
		}
	}
	return cases
}

func runRemote(ctx context.Context, b *bench) []Row {
	version, unavailable := ucxInstalled(ctx)
	processes := map[string]*child{}
	defer func() {
		for _, c := range processes {
			c.close()
		}
	}()
	var rows []Row
	for _, c := range remoteCases(b.small) {
		ours := figures{err: remote.Available()}
		process := processes[c.tls]
		if ours.err == nil && process == nil {
			if process, ours.err = startRemote(ctx, c.env()); ours.err == nil {
				processes[c.tls] = process
			}
		}
		rows = append(rows, remoteRow(ctx, b, c, process, version, figures{err: unavailable}, ours))
	}
	return rows
}

// remoteRow measures ucx_perftest and package remote once in each round.
func remoteRow(ctx context.Context, b *bench, c ucxCase, process *child, version string, theirs, ours figures) Row {
	do, unit := "latency", Microseconds
	if c.bandwidth() {
		do, unit = "bandwidth", GBPerSecond
	}
	if b.small {
		c.iterations = 20
	}
	for range max(1, min(5, b.rounds/2)) { // on a busy machine one run of ucx_perftest takes seconds
		theirs.add(func() (float64, error) { return c.run(ctx, c.bandwidth()) })
		ours.add(func() (float64, error) {
			a, err := process.ask(remoteOrder{Do: do, Size: c.size, N: c.iterations})
			if err != nil {
				return 0, err
			}
			if c.bandwidth() {
				return float64(c.size) * float64(c.iterations) / float64(a.Time), nil
			}
			return float64(a.Time) / 1e3, nil
		})
	}
	row := Row{
		Peer: "ucx_perftest", Version: version, Case: c.test + " over " + c.tls, Size: c.size, Command: c.commandLine("PORT"),
		DLX: "tensors that one goroutine of a process sends, and one of the other process receives into new memory",
	}
	if !c.bandwidth() {
		row.DLX = "half of the median time of a tensor that goes to the other process and comes back"
	}
	row.beside(unit, theirs, ours)
	if row.Ratio > 0 && !c.bandwidth() {
		row.Notes = fmt.Sprintf("dlx takes %.2f us more", row.DLXValue-row.Value)
	}
	return row
}

// startRemote starts the two processes. The first one starts the second.
func startRemote(ctx context.Context, env []string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startWith(ctx, append(slices.Clone(env), remoteVariable+"="+remoteMeasure), program, remoteFlag, remoteMeasure)
}

// serveRemote is one of the two processes.
func serveRemote(ctx context.Context, registry *core.Registry, what string, in io.Reader, out, stderr io.Writer) int {
	host, err := registry.Open(ctx, core.CPU)
	if err == nil {
		defer host.Close()
		if what == remoteMeasure {
			err = measureRemote(ctx, host, in, out, stderr)
		} else {
			err = answerRemote(ctx, host, what)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		return 1
	}
	return 0
}

// answerRemote receives tensors, and sends back those that have a label, until the peer closes the connection.
func answerRemote(ctx context.Context, host core.Device, address string) error {
	c, err := remote.Dial(ctx, address, remote.Options{Insecure: true, Poll: remotePoll})
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		t, r, err := c.Receive(ctx, host)
		if err == nil && r.Label != "" {
			_, err = c.Send(ctx, t)
		}
		if t != nil {
			_ = t.Close()
		}
		if errors.Is(err, core.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// measureRemote starts the other process, and follows orders, which come line by line.
func measureRemote(ctx context.Context, host core.Device, in io.Reader, out, stderr io.Writer) error {
	l, err := remote.Listen("127.0.0.1:0", remote.Options{Insecure: true, Poll: remotePoll})
	if err != nil {
		return err
	}
	defer l.Close()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	other := exec.CommandContext(ctx, program, remoteFlag, l.Addr().String())
	other.Env = append(os.Environ(), remoteVariable+"="+l.Addr().String())
	other.Stderr = stderr
	if err := other.Start(); err != nil {
		cancel()
		return err
	}
	defer func() { _ = other.Wait() }()
	defer cancel() // where the end of the connection did not end it
	waiting, stop := context.WithTimeout(ctx, patience)
	c, err := l.Accept(waiting)
	stop()
	if err != nil {
		return err
	}
	defer func() { _ = other.Wait() }()
	defer c.Close()
	answers := json.NewEncoder(out)
	if err := answers.Encode(answer{Version: remote.Version()}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o remoteOrder
		err := strictjson.Unmarshal(lines.Bytes(), &o)
		var a answer
		if err == nil {
			a.Time, err = o.measure(ctx, c, host)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// measure returns the median time of one way, or the time of all messages.
func (o remoteOrder) measure(ctx context.Context, c *remote.Conn, host core.Device) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if o.Size < 1 || o.N < 1 {
		return 0, fmt.Errorf("%d messages of %d bytes cannot be measured", o.N, o.Size)
	}
	content := make([]byte, o.Size)
	fill(content)
	t, err := core.FromSlice(content)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	switch o.Do {
	case "latency":
		return o.latency(ctx, c, host, t)
	case "bandwidth":
		return o.bandwidth(ctx, c, t)
	}
	return 0, fmt.Errorf("there is no measurement %q", o.Do)
}

func (o remoteOrder) latency(ctx context.Context, c *remote.Conn, host core.Device, t *core.Tensor) (time.Duration, error) {
	var times []time.Duration
	for i := range o.N + o.N/10 {
		start := time.Now()
		if _, err := c.SendLabeled(ctx, t, "back"); err != nil {
			return 0, err
		}
		back, _, err := c.Receive(ctx, host)
		if err != nil {
			return 0, err
		}
		_ = back.Close()
		if i >= o.N/10 {
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	return times[len(times)/2] / 2, nil
}

// bandwidth sends from one goroutine. With two at each side, both processes want more than the two processors of a small machine.
func (o remoteOrder) bandwidth(ctx context.Context, c *remote.Conn, t *core.Tensor) (time.Duration, error) {
	pass := func(n int) error {
		for range n {
			if _, err := c.Send(ctx, t); err != nil {
				return err
			}
		}
		return c.WaitReceived(ctx)
	}
	if err := pass(max(1, o.N/10)); err != nil {
		return 0, err
	}
	start := time.Now()
	err := pass(o.N)
	return time.Since(start), err
}
