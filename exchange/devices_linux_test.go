package exchange_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// The second time that all devices are opened, used and closed, no descriptor is
// left: what drivers keep for the process they opened the first time.
func TestNoDescriptorIsLeft(t *testing.T) {
	var before int
	for range 2 {
		before = coretest.Descriptors()
		t.Run("", func(t *testing.T) {
			devices := openAll(t, 1)
			for _, from := range devices {
				for _, s := range sources(from) {
					src := numbered(t, from, s.alloc, 1<<12)
					for _, d := range devices {
						to(t, src, d, exchange.Options{})
					}
					_ = src.Close()
				}
			}
		})
	}
	coretest.WantDescriptors(t, before, "the second time")
}

// childVariable makes the test below exchange until it is killed.
const childVariable = "DLX_EXCHANGE_FOREVER"

func TestKilledProcessLeavesNothing(t *testing.T) {
	if os.Getenv(childVariable) == "1" {
		exchangeForever(t)
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	openAll(t, 1) // or skips
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		shared, temporary := names(t, "/dev/shm"), names(t, os.TempDir())
		home := t.TempDir()
		child := exec.Command(self, "-test.run=^TestKilledProcessLeavesNothing$", "-test.v")
		child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+home)
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		ready := false
		var told strings.Builder
		for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
			ready = strings.Contains(lines.Text(), "exchanging")
			fmt.Fprintln(&told, lines.Text())
		}
		time.Sleep(time.Duration(20+rand.IntN(100)) * time.Millisecond)
		held := openFiles(t, child.Process.Pid)
		_ = child.Process.Kill()
		_ = child.Wait()
		if !ready {
			t.Fatalf("the child did not get to work:\n%s", told.String())
		}
		pid := regexp.MustCompile(fmt.Sprintf(`(^|\D)%d(\D|$)`, child.Process.Pid))
		for _, name := range names(t, "/dev/shm") { // which other processes use too
			path := "/dev/shm/" + name
			if !slices.Contains(shared, name) && (pid.MatchString(name) || strings.Contains(held, path+"\n")) {
				t.Errorf("%s has outlived its process", path)
			}
		}
		for _, name := range names(t, home) {
			t.Errorf("the temporary file %s has outlived its process", name)
		}
		for _, name := range names(t, os.TempDir()) {
			if !slices.Contains(temporary, name) && pid.MatchString(name) {
				t.Errorf("%s has outlived its process", filepath.Join(os.TempDir(), name))
			}
		}
		if left := group(t, child.Process.Pid); len(left) > 0 {
			t.Errorf("the processes %v have outlived the one that started them", left)
		}
	}
}

// exchangeForever moves tensors between all devices, and through memory that is
// exported and opened again, until the process is killed.
func exchangeForever(t *testing.T) {
	devices := openAll(t, 1)
	h := devices[0]
	var roots []*core.Tensor
	for _, d := range devices {
		for _, s := range sources(d) {
			roots = append(roots, numbered(t, d, s.alloc, 1<<16))
		}
	}
	_, export := exported(t, h)
	r := rand.New(rand.NewPCG(1, 5))
	for i := 0; ; i++ {
		if err := wander(t.Context(), r, roots[i%len(roots)], devices, h); err != nil {
			t.Fatal(err)
		}
		x, err := exchange.Open(t.Context(), h, export(), sixteen)
		if err != nil {
			t.Fatal(err)
		}
		_ = x.Close()
		if i == 10 {
			fmt.Println("exchanging")
		}
	}
}

// names lists a folder.
func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// openFiles are the files that the processes of a group have mapped and open, each at the end of a line.
func openFiles(t *testing.T, id int) string {
	t.Helper()
	var all strings.Builder
	for _, stat := range group(t, id) { // of which some may have ended meanwhile
		maps, _ := os.ReadFile(filepath.Join(filepath.Dir(stat), "maps"))
		all.Write(maps)
		links, _ := filepath.Glob(filepath.Join(filepath.Dir(stat), "fd", "*"))
		for _, link := range links {
			path, _ := os.Readlink(link)
			fmt.Fprintln(&all, path)
		}
	}
	return all.String()
}

// group lists the processes of a process group that have not ended.
func group(t *testing.T, id int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil { // it has ended meanwhile
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 2 && f[0] != "Z" && f[2] == strconv.Itoa(id) {
			left = append(left, path)
		}
	}
	return left
}

// A device waits for the work on memory that was opened on it and closed, like on its own.
func TestADeviceClosesAfterTheWorkOnWhatWasOpened(t *testing.T) {
	const n = 1 << 18
	registry := all.New()
	for _, from := range openAll(t, 1) {
		if !from.Properties().Capabilities.Has(core.CapExportMemory) {
			continue
		}
		handle := from.(core.MemoryExporter).ExportTypes()[0]
		src := numbered(t, from, core.AllocOptions{Export: handle}, n)
		defer src.Close()
		b, err := src.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			m, err := from.(core.MemoryExporter).ExportMemory(b, handle)
			if err != nil {
				t.Fatal(err)
			}
			d, err := registry.Open(t.Context(), from.ID())
			if err != nil {
				t.Fatal(err)
			}
			x, err := exchange.Open(t.Context(), d, m, core.Spec{DType: core.TypeInt32, Shape: []int64{n}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := d.NewStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Copy(t.Context(), s, x, slice(t, make([]int32, n))); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(x.Close(), s.Close(), d.Close()); err != nil {
				t.Errorf("%v: %v", d.ID(), err)
			}
		}
	}
}
