//go:build ucx && linux && cgo

package remote

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// resident returns the bytes of memory that a process uses, without pages of files.
func resident(t testing.TB, process string) int64 {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", process, "status"))
	if err != nil {
		t.Fatal(err)
	}
	sum, found := int64(0), 0
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "RssAnon" && name != "RssShmem" {
			continue
		}
		k, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum, found = sum+k<<10, found+1
	}
	if found != 2 {
		t.Fatalf("the system does not say how much memory process %s uses", process)
	}
	return sum
}

// descriptorsOf returns the number of open descriptors of a process.
func descriptorsOf(t testing.TB, process string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("/proc", process, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Very many small tensors pass through one connection. The memory stays as it is after the first tenth.
func TestVeryManySmallTensors(t *testing.T) {
	n := coretest.Times(5_000, 50_000, 1_000_000)
	d := host(t)
	a, b := connect(t, Options{})
	coretest.CheckNoLeaks(t)
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for i := range n {
				x, err := core.FromSlice([]int64{int64(i)})
				if err != nil {
					return err
				}
				_, err = a.Send(t.Context(), x)
				_ = x.Close()
				if err != nil {
					return err
				}
			}
			return a.WaitReceived(t.Context())
		}()
	}()
	early := int64(0)
	for i := range n {
		y, _, err := b.Receive(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := core.Values[int64](y); err != nil || len(got) != 1 || got[0] != int64(i) {
			t.Fatalf("tensor %d has the elements %v: %v", i, got, err)
		}
		_ = y.Close()
		if i == n/10 {
			debug.FreeOSMemory()
			early = resident(t, "self")
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	late := resident(t, "self")
	t.Logf("%d tensors: %d KiB of memory after the first tenth, %d KiB at the end", n, early>>10, late>>10)
	if late-early > 16<<20 && !coretest.Sanitized { // the race detector's own memory grows
		t.Errorf("the memory has grown from %d to %d bytes", early, late)
	}
}

// figures are what connections take, by side.
type figures struct {
	Connections  int      `json:"connections"`
	Transport    string   `json:"transport"`
	UCX          string   `json:"ucx"`
	Bytes        [2]int64 `json:"bytes_per_connection"` // of the side that dials, and of the one that listens
	Descriptors  [2]int   `json:"descriptors_per_connection"`
	Microseconds int64    `json:"microseconds_per_dial"` // with nothing else to do
}

// grown reports whether memory has grown by more than a tenth of what the connections take, and what the C library keeps.
func grown(f *figures, before, now [2]int64) bool {
	if coretest.Sanitized { // the race detector's own memory grows
		return false
	}
	for i := range now {
		if now[i]-before[i] > 8<<20+int64(f.Connections)*f.Bytes[i]/10 {
			return true
		}
	}
	return false
}

// figuresVariable names the file to which TestManyConnections writes what it has measured.
const figuresVariable = "DLX_REMOTE_FIGURES"

// Two processes have many connections at the same time, and each of them works. When they are closed, nothing is left, and
// as many again take no more memory.
func TestManyConnections(t *testing.T) {
	n := coretest.Times(20, 100, 1000)
	d := host(t)
	p, descriptor := offering(t)
	other := strconv.Itoa(p.Process.Pid)
	about, err := Describe(descriptor)
	if err != nil {
		t.Fatal(err)
	}
	want := coretest.Keep(t)(row(t, pieceBytes/4, 0).Reshape(1, pieceBytes/4))
	measure := func() (m [2]int64, k [2]int) {
		debug.FreeOSMemory()
		p.free(t)
		return [2]int64{resident(t, "self"), resident(t, other)}, [2]int{coretest.Descriptors(), descriptorsOf(t, other)}
	}
	first, err := Dial(t.Context(), about.Address, insecure) // what a process takes once
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	use := func(c *Conn) {
		y, _, err := c.FetchRows(t.Context(), descriptor, 0, 1, d)
		if err != nil {
			t.Error(err)
			return
		}
		wantEqual(t, want, y)
		_ = y.Close()
	}
	use(first)
	after := make([][2]int64, coretest.Times(2, 6, 3)) // the memory after each round
	var f figures
	for round := range after {
		memory, descriptors := measure()
		conns := make([]*Conn, n)
		began := time.Now()
		for i := range conns {
			if conns[i], err = Dial(t.Context(), about.Address, insecure); err != nil {
				t.Fatal(err)
			}
		}
		dialed := time.Since(began)
		for _, c := range conns {
			use(c)
		}
		m, k := measure()
		if round == 0 {
			f = figures{Connections: n, UCX: Version(), Transport: strings.Join(conns[0].Transports(), ","), Microseconds: dialed.Microseconds() / int64(n)}
			for i := range m {
				f.Bytes[i], f.Descriptors[i] = (m[i]-memory[i])/int64(n), (k[i]-descriptors[i])/n
			}
		}
		var group sync.WaitGroup
		for _, c := range conns {
			group.Go(func() { _ = c.Close() })
		}
		group.Wait()
		until(func() bool { return descriptorsOf(t, other) <= descriptors[1] }) // the other side closes, too
		if now := coretest.Descriptors(); now != descriptors[0] {
			t.Errorf("%d descriptors are open, and %d were before", now, descriptors[0])
		}
		// The C library gives memory back a little later.
		until(func() bool { after[round], _ = measure(); return round == 0 || !grown(&f, after[0], after[round]) })
		use(first)
	}
	t.Logf("%+v; memory after each round: %v", f, after)
	if file := os.Getenv(figuresVariable); file != "" {
		b, err := json.MarshalIndent(f, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
