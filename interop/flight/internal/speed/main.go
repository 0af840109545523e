// Command speed measures interop/flight over loopback: beside a bare TCP copy in Go, and beside PyArrow's client and
// server. Sender and receiver are always two processes. It copies a float32 tensor with rows of 4 KiB. The rounds
// take turns, so that what else the machine does meets all cases.
//
//	go run ./internal/speed -python ../../.venv-modules/bin/python -out ../../benchmarks/results/flight-linux-x86_64-2cpu.json
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/flight"
)

// childVariable makes this program the process at the other end. Its value is the number of bytes.
const childVariable = "DLX_FLIGHT_SPEED_CHILD"

const (
	rowElements = 1024
	rowBytes    = 4 * rowElements
)

type settings struct {
	bytes  int64
	rounds int
	python string
	out    string
	only   *regexp.Regexp
	script string // speed.py
	child  []string
}

func main() {
	if n := os.Getenv(childVariable); n != "" {
		if err := serve(n); err != nil {
			fmt.Fprintln(os.Stderr, "speed: server:", err)
			os.Exit(1)
		}
		return
	}
	s := settings{child: []string{os.Args[0]}}
	flag.Int64Var(&s.bytes, "bytes", 256<<20, "`bytes` of the tensor, a multiple of 4096")
	flag.IntVar(&s.rounds, "rounds", 7, "`number` of rounds")
	flag.StringVar(&s.python, "python", "", "a Python `program` with PyArrow; without it, only Go is measured")
	flag.StringVar(&s.script, "script", "internal/speed/speed.py", "PyArrow's ends, a `file`")
	only := flag.String("only", "", "measure only the bare copy and the cases that match a `regexp`, such as ^put.524288$")
	flag.StringVar(&s.out, "out", "", "write the results as JSON to this `file`")
	flag.Parse()
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintln(os.Stderr, "speed: -only:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

// report is what the file has.
type report struct {
	Schema  string   `json:"schema"`
	Date    string   `json:"date"`
	Go      string   `json:"go"`
	OS      string   `json:"os"`
	CPUs    int      `json:"cpus"`
	Load    string   `json:"load"` // /proc/loadavg at the beginning
	Bytes   int64    `json:"bytes"`
	Rounds  int      `json:"rounds"`
	Results []result `json:"results"`
}

// result is a case. Speeds are in 10**9 bytes a second.
type result struct {
	Name   string    `json:"name"`
	Batch  int64     `json:"batch,omitempty"` // bytes
	Speeds []float64 `json:"gb_per_s"`
	Median float64   `json:"median"`
	// Ratio is the median of the speeds, each divided by that of the bare copy in the same round.
	Ratio float64 `json:"of_tcp"`
	// Processor is the processor time of the two processes in Go, in seconds for 10**9 bytes. It depends less on what else
	// the machine does. 0 where the system does not say.
	Processor float64 `json:"processor_s_per_gb"`
	// Allocations are those of this process, for 2**20 bytes.
	Allocations float64 `json:"allocations_per_mib"`
}

// windows are the windows that are measured with batches of the usual size, which is the default.
var windows = []int32{1 << 20, 2 << 20, 4 << 20, 8 << 20}

const usualBatch = 512 << 10

// measured is a case to measure. run returns how long one copy took.
type measured struct {
	name  string
	batch int64
	run   func(context.Context) (time.Duration, error)
}

// batches are the sizes of batches that are measured.
func (s *settings) batches() []int64 {
	var list []int64
	for _, n := range []int64{64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20, 32 << 20, 256 << 20} {
		if n <= s.bytes {
			list = append(list, n)
		}
	}
	return list
}

func run(ctx context.Context, s settings) (err error) {
	b := &bench{settings: s}
	defer func() { err = errors.Join(err, b.close()) }()
	cases, err := b.cases(ctx)
	if err != nil {
		return err
	}
	cases = append(cases[:1], slices.DeleteFunc(cases[1:], func(c measured) bool {
		return !s.only.MatchString(fmt.Sprintf("%s %d", c.name, c.batch))
	})...)
	load, _ := os.ReadFile("/proc/loadavg") // of Linux
	r := report{
		Schema: "dlx-flight/1", Date: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), Load: strings.TrimSpace(string(load)), Bytes: s.bytes, Rounds: s.rounds,
	}
	for _, c := range cases {
		r.Results = append(r.Results, result{Name: c.name, Batch: c.batch})
	}
	for round := range s.rounds + 1 {
		for i, c := range cases {
			before, allocated := b.processor(), mallocs()
			took, err := c.run(ctx)
			if err != nil {
				return fmt.Errorf("%s, batches of %d bytes: %w", c.name, c.batch, err)
			}
			if round > 0 { // the first one opens connections and allocates
				r.Results[i].Allocations += (mallocs() - allocated) / (float64(s.rounds) * float64(s.bytes) / (1 << 20))
				r.Results[i].Processor += (b.processor() - before) / (float64(s.rounds) * float64(s.bytes) / 1e9)
				r.Results[i].Speeds = append(r.Results[i].Speeds, float64(s.bytes)/1e9/took.Seconds())
			}
		}
	}
	for i := range r.Results {
		x := &r.Results[i]
		var ratios []float64
		for round, speed := range x.Speeds {
			ratios = append(ratios, speed/r.Results[0].Speeds[round])
		}
		x.Median, x.Ratio = median(x.Speeds), median(ratios)
		fmt.Printf("%-30s %10d %6.2f GB/s %5.2f of TCP, %5.2f s of processor time for 1 GB, %6.1f allocations for 1 MiB\n", x.Name, x.Batch, x.Median, x.Ratio, x.Processor, x.Allocations)
	}
	if s.out == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.out, append(text, '\n'), 0o644)
}

// mallocs returns how many objects this process has allocated.
func mallocs() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Mallocs)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if len(x) == 0 {
		return 0
	}
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// bench has what the cases use.
type bench struct {
	settings
	closers []func() error
	server  int // the process at the other end, in Go
}

// processor returns the processor time of this process and the one at the other end, in seconds; 0 if the system does not say.
func (b *bench) processor() float64 {
	sum := 0.0
	for _, pid := range []int{os.Getpid(), b.server} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // of Linux
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		for _, ticks := range strings.Fields(rest)[11:13] { // of the program, and of the system for it
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0
			}
			sum += float64(n) / 100
		}
	}
	return sum
}

func (b *bench) close() (err error) {
	for _, f := range slices.Backward(b.closers) {
		err = errors.Join(err, f())
	}
	return err
}

// start starts a process, and returns its input and output. close ends it.
func (b *bench) start(ctx context.Context, env string, args ...string) (io.Writer, *bufio.Reader, error) {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env, c.Stderr = append(os.Environ(), env), os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := c.Start(); err != nil {
		return nil, nil, err
	}
	if b.server == 0 { // the first one
		b.server = c.Process.Pid
	}
	b.closers = append(b.closers, func() error {
		_ = in.Close()
		return c.Wait()
	})
	return in, bufio.NewReader(out), nil
}

// cases starts the processes and returns what is measured. The first case is the bare copy.
func (b *bench) cases(ctx context.Context) ([]measured, error) {
	_, out, err := b.start(ctx, fmt.Sprintf("%s=%d", childVariable, b.bytes), b.child...)
	if err != nil {
		return nil, err
	}
	var tcp string
	addresses := map[int64]string{} // of servers by the size of their batches
	if _, err := fmt.Fscan(out, &tcp); err != nil {
		return nil, err
	}
	for _, n := range b.batches() {
		var address string
		if _, err := fmt.Fscan(out, &address); err != nil {
			return nil, err
		}
		addresses[n] = address
	}
	bare, err := b.bare(tcp)
	if err != nil {
		return nil, err
	}
	cases := []measured{{"tcp", 0, bare(make([]byte, b.bytes))}}
	d, err := openCPU(ctx)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, d.Close)
	// The system clears the pages of new memory, as those of the tensors below.
	cases = append(cases, measured{"tcp to new memory", 0, func(ctx context.Context) (took time.Duration, err error) {
		begin := time.Now()
		t, err := core.Empty(ctx, d, core.TypeFloat32, []int64{b.bytes / 4}, core.AllocOptions{})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		data, err := core.Mutable[float32](t)
		if err != nil {
			return 0, err
		}
		_, err = bare(asBytes(data))(ctx)
		return time.Since(begin), err
	}})
	src, err := newTensor(ctx, d, b.bytes)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, src.Close)
	for _, n := range b.batches() {
		c, err := b.client(addresses[n], n)
		if err != nil {
			return nil, err
		}
		cases = append(cases, measured{"get", n, getter(c, "tensor", d)}, measured{"put", n, putter(c, src)})
	}
	for _, window := range windows {
		var address string
		if _, err := fmt.Fscan(out, &address); err != nil {
			return nil, err
		}
		c, err := b.connect(address, flight.ClientOptions{Insecure: true, Window: window})
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf(", window of %d KiB", window>>10)
		cases = append(cases, measured{"get" + name, usualBatch, getter(c, "tensor", d)}, measured{"put" + name, usualBatch, putter(c, src)})
	}
	if b.python == "" {
		return cases, nil
	}
	return b.pythonCases(ctx, cases, addresses, d, src)
}

// pythonCases adds the cases with PyArrow.
func (b *bench) pythonCases(ctx context.Context, cases []measured, addresses map[int64]string, d core.Device, src *core.Tensor) ([]measured, error) {
	folder, err := os.MkdirTemp("", "dlx-flight-*")
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() error { return os.RemoveAll(folder) })
	file := filepath.Join(folder, "elements")
	elements, err := core.Values[float32](src)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, asBytes(elements), 0o600); err != nil {
		return nil, err
	}
	_, out, err := b.start(ctx, "", b.python, b.script, "serve", file)
	if err != nil {
		return nil, err
	}
	var port int
	if _, err := fmt.Fscan(out, &port); err != nil {
		return nil, err
	}
	theirs := fmt.Sprintf("127.0.0.1:%d", port)
	in, answers, err := b.start(ctx, "", b.python, b.script, "client", file)
	if err != nil {
		return nil, err
	}
	ask := func(what, address, name string, n int64) func(context.Context) (time.Duration, error) {
		return func(context.Context) (time.Duration, error) {
			if _, err := fmt.Fprintln(in, what, address, name, n/rowBytes); err != nil {
				return 0, err
			}
			var seconds float64
			var rows int64
			if _, err := fmt.Fscan(answers, &seconds, &rows); err != nil {
				return 0, err
			}
			if rows != b.bytes/rowBytes {
				return 0, fmt.Errorf("%d rows arrived", rows)
			}
			return time.Duration(seconds * float64(time.Second)), nil
		}
	}
	for _, n := range b.batches() {
		step := fmt.Sprint(n / rowBytes)
		c, err := b.client(theirs, n)
		if err != nil {
			return nil, err
		}
		ours, err := b.client(addresses[n], n)
		if err != nil {
			return nil, err
		}
		put := ask("put", addresses[n], "put", n)
		cases = append(cases,
			measured{"PyArrow gets from PyArrow", n, ask("get", theirs, step, n)},
			measured{"PyArrow puts to PyArrow", n, ask("put", theirs, step, n)},
			measured{"PyArrow gets from dlx", n, ask("get", addresses[n], "tensor", n)},
			measured{"PyArrow puts to dlx", n, func(ctx context.Context) (time.Duration, error) {
				took, err := put(ctx)
				return took, errors.Join(err, ours.Delete(ctx, "put"))
			}},
			measured{"dlx gets from PyArrow", n, getter(c, step, d)},
			measured{"dlx puts to PyArrow", n, func(ctx context.Context) (time.Duration, error) {
				r, err := c.Put(ctx, "put", src)
				return r.Time, err
			}})
	}
	return cases, nil
}

func (b *bench) client(address string, batch int64) (*flight.Client, error) {
	return b.connect(address, flight.ClientOptions{Insecure: true, BatchBytes: batch})
}

func (b *bench) connect(address string, o flight.ClientOptions) (*flight.Client, error) {
	c, err := flight.NewClient(address, o)
	if err == nil {
		b.closers = append(b.closers, c.Close)
	}
	return c, err
}

func getter(c *flight.Client, name string, d core.Device) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		t, r, err := c.Get(ctx, name, d)
		if err != nil {
			return 0, err
		}
		return r.Time, t.Close()
	}
}

func putter(c *flight.Client, src *core.Tensor) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		r, err := c.Put(ctx, "put", src)
		if err != nil {
			return 0, err
		}
		return r.Time, c.Delete(ctx, "put")
	}
}

// bare returns a copy to memory through a connection without Flight: the other process writes the whole memory at once.
func (b *bench) bare(address string) (func(data []byte) func(context.Context) (time.Duration, error), error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, c.Close)
	return func(data []byte) func(context.Context) (time.Duration, error) {
		return func(context.Context) (time.Duration, error) {
			begin := time.Now()
			if _, err := c.Write([]byte{1}); err != nil {
				return 0, err
			}
			_, err := io.ReadFull(c, data)
			return time.Since(begin), err
		}
	}, nil
}
