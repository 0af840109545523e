package backendkit_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

func TestOpenSetSaysWhatIsOpen(t *testing.T) {
	id := core.DeviceID{Type: core.DeviceCUDA}
	var set backendkit.OpenSet
	if err := set.Err("cuda", id); err != nil || set.Len() != 0 {
		t.Error("nothing is open:", err)
	}
	first, second := set.Add("stream"), set.Add("stream")
	memory, query := set.Add("allocation"), set.Add("query")
	if got, want := set.Err("cuda", id).Error(), "cuda: Close: invalid argument: 2 streams, 1 allocation and 1 query on cuda:0 are open: close what is open first; DLX_TRACE_OPEN=1 or core.TraceOpen shows who opened it"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	first.Close()
	memory.Close()
	query.Close()
	query.Close() // the second Close does nothing
	backendkit.OpenItem{}.Close()
	if err := set.Err("cuda", id); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), ": 1 stream on cuda:0 is open: ") {
		t.Error(err)
	}
	first.Close()
	if n := set.Len(); n != 1 {
		t.Errorf("%d are open after a second Close of one item, want 1", n)
	}
	set.Set("memory", 2)
	if err := set.Err("cuda", id); err == nil || !strings.Contains(err.Error(), ": 1 stream and 2 memories on cuda:0 are open: ") {
		t.Error(err)
	}
	set.Set("memory", 0)
	second.Close()
	if err := set.Err("cuda", id); err != nil || set.Len() != 0 {
		t.Error(err)
	}
}

func TestOpenSetsOfOneBackendCountTogether(t *testing.T) {
	first, second := backendkit.OpenSet{Backend: "opensettest"}, backendkit.OpenSet{Backend: "opensettest"}
	a, b, event := first.Add("stream"), second.Add("stream"), second.Add("IPC event")
	second.Set("memory", 7) // the device counts that by itself
	want := map[string]int64{"opensettest.Stream": 2, "opensettest.IPCEvent": 1, "opensettest.Memory": 0}
	for name, n := range want {
		if got := core.Live()[name]; got != n {
			t.Errorf("core.Live reports %d for %s, want %d", got, name, n)
		}
	}
	for _, item := range []backendkit.OpenItem{a, b, event, a} { // closing one again does nothing
		item.Close()
	}
	for name := range want {
		if got := core.Live()[name]; got != 0 {
			t.Errorf("core.Live reports %d for %s after all were closed", got, name)
		}
	}
}

func TestOpenSetCountsConcurrently(t *testing.T) {
	var set backendkit.OpenSet
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 500 {
				item := set.Add([]string{"stream", "allocation"}[i%2])
				_ = set.Err("test", core.CPU)
				item.Close()
			}
		})
	}
	group.Wait()
	if n := set.Len(); n != 0 {
		t.Errorf("%d are open", n)
	}
}

// device is a device with a name, whose memory is never freed.
type device struct {
	core.Device
	id core.DeviceID
}

func (d device) ID() core.DeviceID { return d.id }

func openForTrace(set *backendkit.OpenSet) backendkit.OpenItem { return set.Add("stream") }

func TestTraceOpenShowsWhoOpened(t *testing.T) {
	core.TraceOpen(true)
	defer core.TraceOpen(false)
	id := core.DeviceID{Type: core.DeviceExt, Index: 77}
	var set backendkit.OpenSet
	untraced := openForTrace(&set)
	other := openForTrace(&set)
	m := core.Memory{ID: id, Device: device{id: id}, Handle: 256, Size: 4}
	v, err := core.Wrap(m, core.Spec{DType: core.TypeInt32})
	if err != nil {
		t.Fatal(err)
	}
	text := set.Err("test", id).Error()
	for _, want := range []string{"2 streams on ext_dev:77", "stream opened by\n", "openForTrace", "open_test.go:", "1 tensor opened by\n", "TestTraceOpenShowsWhoOpened"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	v.Close()
	untraced.Close()
	other.Close()
	if err := set.Err("test", id); err != nil {
		t.Error(err)
	}
}

// DLX_TRACE_OPEN is read when a program starts, so another process shows that it is.
func TestTraceOpenByEnvironment(t *testing.T) {
	if os.Getenv("DLX_TRACE_OPEN_TEST") != "" {
		var set backendkit.OpenSet
		set.Add("stream")
		fmt.Println(set.Err("test", core.CPU))
		return
	}
	for value, traced := range map[string]bool{"1": true, "0": false, "": false} {
		c := exec.Command(os.Args[0], "-test.run=^TestTraceOpenByEnvironment$")
		c.Env = append(os.Environ(), "DLX_TRACE_OPEN_TEST=1", "DLX_TRACE_OPEN="+value)
		out, err := c.CombinedOutput()
		if err != nil || strings.Contains(string(out), "1 stream opened by") != traced {
			t.Errorf("DLX_TRACE_OPEN=%q: %v\n%s", value, err, out)
		}
	}
}

func ExampleOpenSet() {
	var open backendkit.OpenSet // a field of a device
	stream := open.Add("stream")
	fmt.Println(open.Err("mybackend", core.CPU) != nil)
	stream.Close()
	fmt.Println(open.Err("mybackend", core.CPU))
	// Output:
	// true
	// <nil>
}
