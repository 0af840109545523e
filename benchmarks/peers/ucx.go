package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ucxCase is a run of ucx_perftest, and what two processes of dlx do beside it.
type ucxCase struct {
	test       string // its -t
	tls        string // its transports
	size       int64
	iterations int
	dlx        string
	own        func(p *pair, ctx context.Context, size int64) (float64, error) // nil where it is no case of ucx_perftest
}

// ucxCases are few and short: both processes poll, and on two processors every other program stands in their way.
func ucxCases() []ucxCase {
	cases := []ucxCase{
		{"tag_lat", "posix", 8, 20000, "a word in a shared tensor, polled for", (*pair).wordLatency},
		{"tag_lat", "posix", 8, 20000, "a Unix socket, which wakes the other process", (*pair).socketLatency},
	}
	for _, size := range []int64{64 << 10, 1 << 20, 16 << 20} {
		n := int(min(2000, (1<<30)/size))
		cases = append(cases,
			ucxCase{"tag_bw", "posix", size, n, "copied into a shared tensor, which the other process reads in place", (*pair).inPlace},
			ucxCase{"tag_bw", "posix", size, n, "copied into a shared tensor, and out of it by the other process", (*pair).copiedOut})
	}
	cases = append(cases, ucxCase{"tag_bw", "posix,cma", 16 << 20, 64, "copied into a shared tensor, which the other process reads in place", (*pair).inPlace})
	return cases
}

// openings have no counterpart in ucx_perftest.
var openings = []struct {
	name string
	size int64
	own  func(p *pair, ctx context.Context, size int64) (float64, error)
}{
	{"open, cold", 4 << 10, (*pair).openCold}, {"open, cold", 1 << 20, (*pair).openCold}, {"open, cold", 64 << 20, (*pair).openCold},
	{"open, warm", 64 << 20, (*pair).openWarm},
}

// ucxFlags: the last numbers only, as CSV.
var ucxFlags = []string{"-f", "-v"}

const (
	ucxLatencyHeader = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr"
	mebibyte         = 1 << 20
)

// parseUCX reads the CSV of ucx_perftest 1.13: the median latency one way in us, or with bandwidth the GB/s of the whole
// run, of which its MB are 2^20 bytes.
func parseUCX(out string, bandwidth bool) (float64, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 {
		return 0, fmt.Errorf("ucx_perftest prints %d lines, and not a header and a line of numbers: %q", len(lines), out)
	}
	if lines[0] != ucxLatencyHeader {
		return 0, fmt.Errorf("ucx_perftest's header is %q, and not %q", lines[0], ucxLatencyHeader)
	}
	fields := strings.Split(lines[1], ",")
	if len(fields) != strings.Count(ucxLatencyHeader, ",")+1 {
		return 0, fmt.Errorf("ucx_perftest's line is %q: it has %d fields", lines[1], len(fields))
	}
	values := make([]float64, len(fields))
	for i, f := range fields {
		f = strings.TrimSpace(f)
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || v < 0 {
			return 0, fmt.Errorf("ucx_perftest's line is %q: %q is no number", lines[1], f)
		}
		values[i] = v
	}
	value := values[1]
	if bandwidth {
		value = values[5] * mebibyte / 1e9
	}
	if value <= 0 {
		return 0, fmt.Errorf("ucx_perftest's line is %q: the figure is %g", lines[1], value)
	}
	return value, nil
}

// ucxVersion reads what ucx_info -v prints.
func ucxVersion(out string) (string, error) {
	first, _, _ := strings.Cut(out, "\n")
	for _, prefix := range []string{"# Version ", "# Library version: "} {
		if version, ok := strings.CutPrefix(first, prefix); ok && version != "" {
			return version, nil
		}
	}
	return "", fmt.Errorf("ucx_info -v prints %q, which is not understood", first)
}

func runUCX(ctx context.Context, b *bench) []Row {
	version, unavailable := ucxInstalled(ctx)
	p, noPair := newPair(ctx, b)
	if noPair == nil {
		defer p.close()
	}
	rounds := max(1, min(3, b.rounds))
	var rows []Row
	for _, c := range ucxCases() {
		bandwidth := c.test == "tag_bw"
		row := Row{
			Peer: "ucx_perftest", Version: version, Case: c.test + " over " + c.tls, Size: c.size, DLX: c.dlx,
			Command: c.commandLine("PORT"),
		}
		unit := Microseconds
		if bandwidth {
			unit = GBPerSecond
		}
		var theirs, ours []float64
		peerErr, ownErr := unavailable, noPair
		for range rounds {
			if peerErr == nil {
				var v float64
				if v, peerErr = c.run(ctx, bandwidth); peerErr == nil {
					theirs = append(theirs, v)
				}
			}
			if ownErr == nil {
				var v float64
				if v, ownErr = c.own(p, ctx, c.size); ownErr == nil {
					ours = append(ours, v)
				}
			}
		}
		row.beside(unit, theirs, ours, peerErr, ownErr)
		rows = append(rows, row)
	}
	for _, o := range openings {
		row := Row{Peer: "ucx_perftest", Version: version, Case: o.name, Size: o.size, DLX: "sent, opened, first and last byte read, answered"}
		noCase := unavailable
		if noCase == nil {
			noCase = notSupported("ucx_perftest has no test that opens memory")
		}
		var ours []float64
		ownErr := noPair
		for range rounds {
			if ownErr == nil {
				var v float64
				if v, ownErr = o.own(p, ctx, o.size); ownErr == nil {
					ours = append(ours, v)
				}
			}
		}
		row.beside(Microseconds, nil, ours, noCase, ownErr)
		rows = append(rows, row)
	}
	return rows
}

// beside fills a row of which either side may be missing.
func (r *Row) beside(unit Unit, theirs, ours []float64, peerErr, ownErr error) {
	if ownErr != nil {
		r.DLX, ours = "", nil
		r.Notes = strings.TrimPrefix(r.Notes+"; dlx was not measured: "+ownErr.Error(), "; ")
	}
	if peerErr == nil {
		r.fill(unit, theirs, ours, true)
		return
	}
	r.refuse(peerErr)
	if len(ours) > 0 {
		r.Unit, r.DLXSamples, r.DLXValue = unit, rounded(ours), round(median(ours))
	}
}

func ucxInstalled(ctx context.Context) (string, error) {
	if _, err := find("ucx_perftest", "ucx-utils"); err != nil {
		return "", err
	}
	out, err := output(ctx, nil, "ucx_info", "-v")
	if err != nil {
		return "", err
	}
	version, err := ucxVersion(out)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(fmt.Sprintf("UCX %s (%s)", version, debianVersion("ucx-utils")), " ()"), nil
}

// env chooses the transports. UCX 1.13 takes a busy process for a dead one unless it is told not to check.
func (c ucxCase) env() []string { return []string{"UCX_TLS=" + c.tls, "UCX_KEEPALIVE_INTERVAL=inf"} }

func (c ucxCase) args(port string) []string {
	warm := strconv.Itoa(max(1, c.iterations/10))
	return append([]string{"127.0.0.1", "-p", port, "-t", c.test, "-s", strconv.FormatInt(c.size, 10), "-n", strconv.Itoa(c.iterations), "-w", warm}, ucxFlags...)
}

func (c ucxCase) commandLine(port string) string {
	return commandLine(c.env(), "ucx_perftest", "-p", port) + " & " + commandLine(c.env(), "ucx_perftest", c.args(port)...)
}

// run starts the two processes of ucx_perftest and returns the figure.
func (c ucxCase) run(ctx context.Context, bandwidth bool) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	server := exec.CommandContext(ctx, "ucx_perftest", "-p", port)
	server.Env = append(server.Environ(), c.env()...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() {
		cancel() // where the client did not end it
		_ = server.Wait()
	}()
	if err := untilListening(ctx, port); err != nil {
		return 0, err
	}
	out, err := output(ctx, c.env(), "ucx_perftest", c.args(port)...)
	if err != nil {
		return 0, err
	}
	return parseUCX(out, bandwidth)
}

// untilListening waits until a process listens on the port: ucx_perftest's client tries to connect only once, and its
// server says late that it waits.
func untilListening(ctx context.Context, port string) error {
	for {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return err
		}
		if listens(string(table), port) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ucx_perftest does not listen on port %s: %w", port, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// listens looks for a port in the state LISTEN in the text of /proc/net/tcp.
func listens(table, port string) bool {
	n, err := strconv.Atoi(port)
	if err != nil {
		return false
	}
	suffix := fmt.Sprintf(":%04X", n)
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], suffix) && f[3] == "0A" {
			return true
		}
	}
	return false
}

// freePort returns a port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
