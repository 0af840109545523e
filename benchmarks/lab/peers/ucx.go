package main

import (
	"context"
	"errors"
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
	own        []ownCase
	peers      bool // UCX is to notice that a peer is gone
}

// ownCase is what the two processes of dlx do.
type ownCase struct {
	name    string
	measure func(p *pair, ctx context.Context, size int64) (float64, error)
}

// ucxCases are few and short: both processes poll, and on two processors every other program stands in their way.
func ucxCases() []ucxCase {
	inPlace := ownCase{"copied into a shared tensor, which the other process reads in place", (*pair).inPlace}
	copiedOut := ownCase{"copied into a shared tensor, and out of it by the other process", (*pair).copiedOut}
	cases := []ucxCase{{test: "tag_lat", tls: "posix", size: 8, iterations: 20000, own: []ownCase{
		{"a word in a shared tensor, polled for", (*pair).wordLatency},
		{"a Unix socket, which wakes the other process", (*pair).socketLatency},
	}}}
	for _, size := range []int64{64 << 10, 1 << 20, 16 << 20} {
		cases = append(cases, ucxCase{test: "tag_bw", tls: "posix", size: size, iterations: messagesOf(size), own: []ownCase{inPlace, copiedOut}})
	}
	// With CMA one process copies out of the memory of the other.
	const size = 16 << 20
	return append(cases, ucxCase{test: "tag_bw", tls: "posix,cma", size: size, iterations: messagesOf(size), own: []ownCase{inPlace}})
}

// messagesOf is how many messages of a size are sent, by either side: half a gigabyte, at most a thousand.
func messagesOf(size int64) int { return int(min(1000, (1<<29)/size)) }

// openings have no counterpart in ucx_perftest.
var openings = []struct {
	size int64
	own  ownCase
}{
	{4 << 10, ownCase{"open, cold", (*pair).openCold}}, {1 << 20, ownCase{"open, cold", (*pair).openCold}},
	{64 << 20, ownCase{"open, cold", (*pair).openCold}}, {64 << 20, ownCase{"open, warm", (*pair).openWarm}},
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
		rows = append(rows, c.rows(ctx, p, rounds, version, unavailable, noPair)...)
	}
	for _, o := range openings {
		row := Row{Peer: "ucx_perftest", Version: version, Case: o.own.name, Size: o.size, DLX: "sent, opened, first and last byte read, answered"}
		noCase := unavailable
		if noCase == nil {
			noCase = notSupported("ucx_perftest has no test that opens memory")
		}
		ours := figures{err: noPair}
		for range rounds {
			ours.add(func() (float64, error) { return o.own.measure(p, ctx, o.size) })
		}
		row.beside(Microseconds, figures{err: noCase}, ours)
		rows = append(rows, row)
	}
	return rows
}

// figures are samples that are taken until one fails.
type figures struct {
	samples []float64
	err     error
}

func (f *figures) add(measure func() (float64, error)) {
	if f.err != nil {
		return
	}
	v, err := measure()
	if f.err = err; err == nil {
		f.samples = append(f.samples, v)
	}
}

// rows runs ucx_perftest and each of the cases of dlx once in each round.
func (c ucxCase) rows(ctx context.Context, p *pair, rounds int, version string, unavailable, noPair error) []Row {
	bandwidth, unit := c.bandwidth(), Microseconds
	if bandwidth {
		unit = GBPerSecond
	}
	theirs, ours := figures{err: unavailable}, make([]figures, len(c.own))
	for range rounds {
		theirs.add(func() (float64, error) { return c.run(ctx, bandwidth) })
		for i, o := range c.own {
			ours[i].err = firstOf(ours[i].err, noPair)
			ours[i].add(func() (float64, error) { return o.measure(p, ctx, c.size) })
		}
	}
	var rows []Row
	for i, o := range c.own {
		row := Row{
			Peer: "ucx_perftest", Version: version, Case: c.test + " over " + c.tls, Size: c.size, DLX: o.name,
			Command: c.commandLine("PORT"),
		}
		row.beside(unit, theirs, ours[i])
		rows = append(rows, row)
	}
	return rows
}

// beside fills a row of which either side may be missing.
func (r *Row) beside(unit Unit, theirs, ours figures) {
	if ours.err != nil {
		r.DLX, ours.samples = "", nil
		r.Notes = strings.TrimPrefix(r.Notes+"; dlx was not measured: "+ours.err.Error(), "; ")
	}
	if theirs.err == nil {
		r.fill(unit, theirs.samples, ours.samples, true)
		return
	}
	r.refuse(theirs.err)
	if len(ours.samples) > 0 {
		r.Unit, r.DLXSamples, r.DLXValue = unit, rounded(ours.samples), round(median(ours.samples))
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

// bandwidth reports whether the figure is one, and not a time.
func (c ucxCase) bandwidth() bool { return strings.HasSuffix(c.test, "_bw") }

// env chooses the transports. UCX 1.13 takes a busy process for a dead one unless it is told not to check.
func (c ucxCase) env() []string {
	env := []string{"UCX_TLS=" + c.tls, "UCX_KEEPALIVE_INTERVAL=inf"}
	if c.peers { // shared memory notices the end of a peer only if it is told
		env = append(env, "UCX_POSIX_ERROR_HANDLING=y", "UCX_WARN_UNUSED_ENV_VARS=n")
	}
	return env
}

func (c ucxCase) args(port string) []string {
	warm := strconv.Itoa(max(1, c.iterations/10))
	args := append(c.serverArgs(port), "127.0.0.1", "-t", c.test, "-s", strconv.FormatInt(c.size, 10), "-n", strconv.Itoa(c.iterations), "-w", warm)
	return append(args, ucxFlags...)
}

// serverArgs are the arguments of the side that waits, and the first ones of the other side.
func (c ucxCase) serverArgs(port string) []string {
	args := []string{"-p", port}
	if c.peers {
		args = append(args, "-e")
	}
	return args
}

func (c ucxCase) commandLine(port string) string {
	return commandLine(c.env(), "ucx_perftest", c.serverArgs(port)...) + " & " + commandLine(c.env(), "ucx_perftest", c.args(port)...)
}

// run starts the two processes of ucx_perftest and returns the figure.
func (c ucxCase) run(ctx context.Context, bandwidth bool) (float64, error) {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	server := exec.CommandContext(ctx, "ucx_perftest", c.serverArgs(port)...)
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
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return 0, notNow("ucx_perftest was not done after %v: its two processes poll, and need a processor each. Measure on a quiet machine", limit)
	}
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
