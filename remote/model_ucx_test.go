//go:build ucx && linux && cgo

package remote

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// memberVariable makes the test binary a process of a service: it listens, prints its address, and does what comes to its
// standard input until that ends.
const memberVariable = "DLX_REMOTE_MEMBER"

func init() {
	if os.Getenv(memberVariable) != "" {
		runChild = func(string) {
			if err := serveMember(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
}

// memberOptions are those of all processes of a service.
var memberOptions = Options{Token: bytes.Repeat([]byte{7}, 32), KeepAlive: time.Minute}

// task is what a member does.
type task struct {
	Call  string // fetch, relay, end (of the relay), offer, settle or count
	Plan  Fanout
	Self  int
	Bytes int64
}

// answer is what a member says then.
type answer struct {
	Descriptor []byte
	Count      int64 // of connections that were made since the last count
	Error      string
}

func serveMember() error {
	ctx := context.Background()
	d, err := cpu.New().Open(ctx, core.CPU)
	if err != nil {
		return err
	}
	l, err := Listen("127.0.0.1:0", memberOptions)
	if err != nil {
		return err
	}
	go func() { _ = l.Serve(ctx) }()
	fmt.Println(l.Addr())
	var offer *Offer // of the last relay
	made := int64(0)
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var k task
		if err := in.Decode(&k); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var a answer
		var y *core.Tensor
		var err error
		switch k.Call {
		case "fetch":
			y, _, err = Fetch(ctx, k.Plan.Descriptor, d, memberOptions)
		case "relay":
			y, offer, _, err = l.Relay(ctx, k.Plan, k.Self, d)
		case "end":
			_ = offer.Close()
		case "offer":
			var o *Offer
			if y, err = core.Empty(ctx, d, core.TypeUint8, []int64{k.Bytes / 4, 4}, core.AllocOptions{}); err == nil {
				if o, err = l.Offer(y, OfferOptions{}); err == nil {
					a.Descriptor = o.Descriptor()
				}
			}
		case "settle":
			debug.FreeOSMemory()
		case "count":
			n := core.ReadMetrics().Remote.Connections
			a.Count, made = n-made, n
		}
		if y != nil {
			_ = y.Close()
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

// member is a process of a service.
type member struct {
	*exec.Cmd
	address string
	in      *json.Encoder
	out     *json.Decoder
}

func newMember(t *testing.T) *member {
	t.Helper()
	m := &member{Cmd: exec.Command(os.Args[0])}
	m.Env = append(os.Environ(), childVariable+"=-", memberVariable+"=1")
	m.Stderr = os.Stderr
	in, err := m.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = m.Process.Kill(); _ = m.Wait() })
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	m.address, m.in, m.out = strings.TrimSpace(line), json.NewEncoder(in), json.NewDecoder(lines)
	return m
}

// do lets the member do a task.
func (m *member) do(k task) (answer, error) {
	var a answer
	if err := m.in.Encode(k); err != nil {
		return a, err
	}
	if err := m.out.Decode(&a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (m *member) must(t *testing.T, k task) answer {
	t.Helper()
	a, err := m.do(k)
	if err != nil {
		t.Fatalf("%s: %v", k.Call, err)
	}
	return a
}

// processorTime returns the processor time that a process has taken, in seconds; that of this process if pid is 0.
func processorTime(t testing.TB, pid int) float64 {
	t.Helper()
	if pid == 0 {
		pid = os.Getpid()
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &ts); err != nil { // see clock_getcpuclockid
		t.Fatal(err)
	}
	return float64(ts.Nano()) / 1e9
}

// spent measures the processor time of this process and of the member.
func spent(t *testing.T, m *member, work func()) [2]float64 {
	t.Helper()
	a, b := processorTime(t, 0), processorTime(t, m.Process.Pid)
	work()
	return [2]float64{processorTime(t, 0) - a, processorTime(t, m.Process.Pid) - b}
}

// each divides a measurement by n, and multiplies it.
func each(v [2]float64, n, times float64) [2]float64 {
	return [2]float64{v[0] / n * times, v[1] / n * times}
}

// dialAll makes n connections.
func dialAll(t *testing.T, address string, n int, o Options) []*Conn {
	t.Helper()
	conns := make([]*Conn, n)
	for i := range conns {
		var err error
		if conns[i], err = Dial(t.Context(), address, o); err != nil {
			t.Fatal(err)
		}
	}
	return conns
}

func closeAll(conns []*Conn) {
	var group sync.WaitGroup
	for _, c := range conns {
		group.Go(func() { _ = c.Close() })
	}
	group.Wait()
}

// measureConnections makes n connections, uses each once, and measures what they take.
func measureConnections(t *testing.T, m *member, descriptor []byte, n int) (memory [2]int64, descriptors [2]int, processor [2]float64) {
	t.Helper()
	d, pid := host(t), strconv.Itoa(m.Process.Pid)
	look := func() ([2]int64, [2]int) {
		debug.FreeOSMemory()
		m.must(t, task{Call: "settle"})
		return [2]int64{resident(t, "self"), resident(t, pid)}, [2]int{coretest.Descriptors(), descriptorsOf(t, pid)}
	}
	before, open := look()
	var conns []*Conn
	processor = spent(t, m, func() { conns = dialAll(t, m.address, n, memberOptions) })
	for _, c := range conns {
		fetchOnce(t, c, descriptor, d)
	}
	memory, descriptors = look()
	closeAll(conns)
	until(func() bool { return descriptorsOf(t, pid) <= open[1] })
	if os.Getenv(modelVariable) == "measure" {
		time.Sleep(2 * time.Second) // the memory goes back to the system a second later
	}
	for i := range memory {
		memory[i], descriptors[i] = memory[i]-before[i], descriptors[i]-open[i]
	}
	return memory, descriptors, processor
}

func fetchOnce(t *testing.T, c *Conn, descriptor []byte, d core.Device) {
	t.Helper()
	y, _, err := c.Fetch(t.Context(), descriptor, d)
	if err != nil {
		t.Fatal(err)
	}
	_ = y.Close()
}

// delayed passes bytes on between a connection and the address, each some time after it has come, and counts them.
func delayed(t *testing.T, address string, delay time.Duration) (through string, counts *[2]atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counts = new([2]atomic.Int64)
	type chunk struct {
		b  []byte
		at time.Time
	}
	pipe := func(from, to net.Conn, count *atomic.Int64) {
		late := make(chan chunk, 1024)
		go func() {
			defer to.Close()
			for c := range late {
				time.Sleep(time.Until(c.at))
				count.Add(int64(len(c.b)))
				if _, err := to.Write(c.b); err != nil {
					return
				}
			}
		}()
		defer close(late)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			select {
			case late <- chunk{b[:n], time.Now().Add(delay)}:
			case <-t.Context().Done():
				return
			}
		}
	}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				_ = from.Close()
				return
			}
			go pipe(from, to, &counts[0])
			go pipe(to, from, &counts[1])
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), counts
}

// measureHandshake measures the bytes and the round trips of a key exchange.
func measureHandshake(t *testing.T, m *member, delay time.Duration) (exchanged [2]int64, trips int) {
	t.Helper()
	took := func(delay time.Duration) (time.Duration, [2]int64) {
		through, counts := delayed(t, m.address, delay)
		began := time.Now()
		c := dialAll(t, through, 1, memberOptions)[0]
		defer c.Close()
		return time.Since(began), [2]int64{counts[0].Load(), counts[1].Load()}
	}
	short, exchanged := took(0)
	long, _ := took(delay)
	for range 2 { // other processes make either longer
		again, _ := took(0)
		late, _ := took(delay)
		short, long = min(short, again), min(long, late)
	}
	return exchanged, 1 + int(math.Round(float64(long-short)/float64(2*delay)))
}

// measureKeys returns the processor time of both sides for a connection, in microseconds.
func measureKeys(t *testing.T, n int, listen, dial Options) float64 {
	t.Helper()
	l, _ := serving(t, listen)
	closeAll(dialAll(t, l.Addr().String(), 1, dial))
	began := processorTime(t, 0)
	conns := dialAll(t, l.Addr().String(), n, dial)
	took := processorTime(t, 0) - began
	closeAll(conns)
	return took / float64(n) * 1e6
}

// measureOffers measures offers with leases and names, and lists of them.
func measureOffers(t *testing.T, f *modelFigures, n int) {
	t.Helper()
	l, _ := serving(t, memberOptions)
	c := dialAll(t, l.Addr().String(), 1, memberOptions)[0]
	defer c.Close()
	x := coretest.Keep(t)(row(t, 64, 1).Reshape(8, 8))
	offers := make([]*Offer, n)
	heap := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before, began := heap(), processorTime(t, 0)
	for i := range offers {
		var err error
		if offers[i], err = l.Offer(x, OfferOptions{Lease: time.Hour, Name: fmt.Sprintf("%0*d", modelName, i)}); err != nil {
			t.Fatal(err)
		}
	}
	took := processorTime(t, 0) - began
	f.OfferTime, f.OfferMemory = took/float64(n)*1e6, float64(heap()-before)/float64(n)
	f.Descriptor = len(offers[0].Descriptor())
	f.Entry = len(appendListed(nil, Listed{offers[0].name, offers[0].descriptor}))
	began = processorTime(t, 0)
	list, err := c.List(t.Context())
	if err != nil || len(list) != n {
		t.Fatalf("a list of %d offers has %d: %v", n, len(list), err)
	}
	f.ListTime = (processorTime(t, 0) - began) / float64(n) * 1e6
	for _, o := range offers {
		_ = o.Close()
	}
}

// measureFleet lets the members get a tensor from this process.
func measureFleet(t *testing.T, members []*member, width int, x *core.Tensor) fleetFigures {
	t.Helper()
	r := fleetFigures{Peers: len(members), Width: width, Bytes: x.NumBytes()}
	l, stop := serving(t, memberOptions)
	defer stop()
	o := offerOf(t, l, x)
	plan := Fanout{Descriptor: o.Descriptor(), Width: width}
	for _, m := range members {
		plan.Peers = append(plan.Peers, m.address)
		m.must(t, task{Call: "count"})
	}
	all := func() float64 {
		sum := processorTime(t, 0)
		for _, m := range members {
			sum += processorTime(t, m.Process.Pid)
		}
		return sum
	}
	made := core.ReadMetrics().Remote.Connections
	began, start := all(), time.Now()
	var group sync.WaitGroup
	for i, m := range members {
		group.Go(func() {
			k := task{Call: "relay", Plan: plan, Self: i}
			if width == 0 {
				k.Call = "fetch"
			}
			if _, err := m.do(k); err != nil {
				t.Errorf("member %d: %v", i, err)
			}
		})
	}
	group.Wait()
	r.Wall, r.Processor = time.Since(start).Seconds()*1000, (all()-began)*1000
	r.Source = core.ReadMetrics().Remote.Connections - made
	until(func() bool { return t.Failed() || o.BytesRead() >= copies(r.Peers, width)*r.Bytes })
	r.Sent = o.BytesRead()
	for _, m := range members {
		r.Peer = max(r.Peer, m.must(t, task{Call: "count"}).Count)
		if width > 0 {
			m.must(t, task{Call: "end"})
		}
	}
	return r
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// TestMeasureModel measures the costs of the model, and its small end. It checks what can be counted; the times are
// for docs/scale.md, which it writes if modelVariable says so.
func TestMeasureModel(t *testing.T) {
	full := os.Getenv(modelVariable) == "measure"
	if coretest.Sanitized && !full {
		t.Skip("it measures memory and time, which are those of the sanitizer")
	}
	amount := func(quick, whole int) int {
		if full {
			return whole
		}
		return quick
	}
	f := modelFigures{Date: time.Now().UTC(), Processors: runtime.NumCPU(), UCX: Version(), Load: [2]string{load()}, Runs: amount(1, 5)}
	d := host(t)
	m := newMember(t)
	size := amount(2<<20, 32<<20) // of large tensors
	small := m.must(t, task{Call: "offer", Bytes: 8}).Descriptor
	large := m.must(t, task{Call: "offer", Bytes: int64(size)}).Descriptor
	c := dialAll(t, m.address, 1, memberOptions)[0]
	defer c.Close()
	fetchOnce(t, c, small, d)
	debug.FreeOSMemory()
	m.must(t, task{Call: "settle"})
	f.Process = [2]int64{resident(t, "self"), resident(t, strconv.Itoa(m.Process.Pid))}
	fetchOnce(t, c, large, d)
	f.Transports = strings.Join(c.Transports(), " and ")

	f.Connections, f.Many.Connections = amount(2, 100), amount(4, 1000)
	measureConnections(t, m, small, f.Connections) // pools of memory grow
	memory, descriptors, took := measureConnections(t, m, small, f.Connections)
	for side := range 2 {
		f.Memory[side], f.Descriptors[side] = memory[side]/int64(f.Connections), float64(descriptors[side])/float64(f.Connections)
	}
	f.Handshake = each(took, float64(f.Connections), 1e6)
	var seconds [2]float64
	f.Many.Memory, f.Many.Descriptors, seconds = measureConnections(t, m, small, f.Many.Connections)
	f.Many.Processor = each(seconds, 1, 1000)
	for side := range 2 {
		if want := f.Many.Connections * descriptors[side] / f.Connections; f.Many.Descriptors[side] != want {
			t.Errorf("%d connections take %d descriptors, and %d take %d", f.Many.Connections, f.Many.Descriptors[side], f.Connections, descriptors[side])
		}
	}

	f.Exchanged, f.RoundTrips = measureHandshake(t, m, time.Duration(amount(1, 100))*time.Millisecond)
	if f.Exchanged[0] == 0 || f.Exchanged[1] == 0 {
		t.Errorf("a key exchange has %v bytes", f.Exchanged)
	}
	ca := newAuthority(t)
	mutual := Options{TLS: ca.config(t, ca)}
	f.Tokens = measureKeys(t, amount(2, 100), memberOptions, memberOptions)
	f.Certificates = measureKeys(t, amount(2, 100), mutual, mutual)

	n := amount(20, 2000)
	f.Request = each(spent(t, m, func() {
		for range n {
			fetchOnce(t, c, small, d)
		}
	}), float64(n), 1e6)
	n = amount(1, 64)
	f.Element = each(spent(t, m, func() {
		for range n {
			fetchOnce(t, c, large, d)
		}
	}), float64(n*size>>10), 1e9)
	measureOffers(t, &f, amount(100, 10_000))
	if !testing.Short() || full { // it waits for them
		f.Ping = measurePings(t, amount(1, 100), amount(1, 8))
	}

	members := make([]*member, amount(3, 16))
	for i := range members {
		members[i] = newMember(t)
	}
	x := coretest.Keep(t)(row(t, size, 1).Reshape(int64(size>>20), 1<<20))
	measureFleet(t, members, 1, x) // memory of the processes
	for n := 1; n <= len(members); n *= 2 {
		for width := range 3 {
			runs := make([]fleetFigures, f.Runs)
			for i := range runs {
				runs[i] = measureFleet(t, members[:n], width, x)
				runs[i].check(t)
			}
			slices.SortFunc(runs, func(a, b fleetFigures) int { return cmp.Compare(a.Processor, b.Processor) })
			f.Fleets = append(f.Fleets, runs[len(runs)/2])
		}
	}
	f.Load[1] = load()
	if !full || t.Failed() {
		return
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = os.WriteFile(modelResults, append(text, '\n'), 0o644)
	}
	if err == nil {
		err = os.WriteFile(modelPage, []byte(f.page()), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// measurePings returns the processor time of a sign of life, in microseconds, of both sides. Each of n connections has some
// from each side.
func measurePings(t *testing.T, n, times int) float64 {
	t.Helper()
	o := memberOptions
	o.KeepAlive = 2 * time.Second
	l, _ := serving(t, o)
	conns := dialAll(t, l.Addr().String(), n, o)
	defer closeAll(conns)
	began := processorTime(t, 0)
	time.Sleep(time.Duration(times) * o.KeepAlive / 4)
	return (processorTime(t, 0) - began) / float64(2*n*times) * 1e6
}
