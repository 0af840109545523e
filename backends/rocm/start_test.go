//go:build rocm && linux && cgo

package rocm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/cudalike/cudaliketest"
	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// modeVariable is set in child processes, which load the library anew.
const modeVariable = "DLX_ROCM_TEST_MODE"

// A process calls hipInit only once, so each case has a process of its own.
func TestHIPMayNotStart(t *testing.T) {
	sim := kit.Simulator(t)
	call := os.Getenv(modeVariable)
	if call == "" {
		for _, call := range []string{"hipInit", "hipRuntimeGetVersion", "hipGetDeviceCount"} {
			defer t.Run(call, coretest.Child(t, t.Name(), modeVariable+"="+call))
		}
		return
	}
	sim.Fail(call, 1, int(driver.InsufficientDriver))
	_, err := New().Open(t.Context(), core.DeviceID{Type: core.DeviceROCM})
	coretest.WantError(t, err, core.ErrVersion, "Open")
	var e *core.Error
	if !errors.As(err, &e) || e.Call != call || e.Code != int64(driver.InsufficientDriver) {
		t.Errorf("%v", err)
	}
}

// realVariable names AMD's library in place of the system's, for tests with other versions of it.
const realVariable = "DLX_AMD_HIP_LIBRARY"

// AMD's library, where it is installed, finds no card, and says so itself.
func TestAMDsLibraryWithoutACard(t *testing.T) {
	if os.Getenv(modeVariable) == "" {
		if _, err := os.Stat("/dev/kfd"); err == nil {
			t.Skip("this machine may have a card of AMD: there is /dev/kfd")
		}
		library := os.Getenv(realVariable)
		if library == "" {
			library = dltest.System(t, "libamdhip64.so.5")
		}
		coretest.Child(t, t.Name(), driver.LibraryVariable+"="+library, modeVariable+"=real")(t)
		return
	}
	p := New().Probe(t.Context())
	if p.Available || !strings.Contains(p.Reason, "hipErrorNoDevice") || !strings.Contains(p.Reason, "(code 100)") || !strings.Contains(p.Reason, "/dev/kfd") {
		t.Errorf("%+v", p)
	}
}

func TestALibraryThatIsNotHIPs(t *testing.T) {
	if os.Getenv(modeVariable) == "" {
		defer coretest.Child(t, t.Name(), driver.LibraryVariable+"=libc.so.6", modeVariable+"=libc.so.6 has no function hip")(t)
		defer coretest.Child(t, t.Name(), driver.LibraryVariable+"=/nonexistent", modeVariable+"=/nonexistent")(t)
		return
	}
	if p := New().Probe(t.Context()); p.Available || !strings.Contains(p.Reason, os.Getenv(modeVariable)) {
		t.Errorf("%+v", p)
	}
}

func TestACodeThatHIPDoesNotKnow(t *testing.T) {
	_ = kit.Open(t).Close()
	for code, want := range map[driver.Code]string{driver.OutOfMemory: "hipErrorOutOfMemory", 99_999: "", 1<<20 + 6: "hiprtc code 6"} {
		if got := code.String(); !strings.Contains(got, want) || got == "" {
			t.Errorf("%d is %q, want %q", code, got, want)
		}
	}
}

// The error names the function that was called.
func TestHostFunctionsOfOldLibraries(t *testing.T) {
	sim := kit.Simulator(t)
	if os.Getenv(modeVariable) == "" {
		coretest.Child(t, t.Name(), modeVariable+"=5", "DLX_GPUSIM_HIP_VERSION=5")(t)
		return
	}
	d := kit.Opened(t)
	stream := cudaliketest.NewStream(t, d)
	const call = "hipStreamAddCallback"
	sim.Fail(call, 1, int(driver.OutOfMemory))
	if s := contextOf(d).LaunchHostFunc(stream.Native(), func() { t.Error("called") }); s.Call != call || s.Code != int32(driver.OutOfMemory) {
		t.Errorf("%+v", s)
	}
}

// Another process opens memory and an event of this one, and writes to the memory.
func TestHandlesOfAnotherProcess(t *testing.T) {
	kit.Simulator(t)
	d := kit.Opened(t)
	s := cudaliketest.NewStream(t, d)
	if sent := os.Getenv(modeVariable); sent != "" {
		openHandles(t, d, s, strings.Split(sent, ","))
		return
	}
	x := coretest.Row(t, d, 4096, core.AllocOptions{Export: core.HandleIPC})
	e, err := d.(core.IPCEventCreator).NewIPCEvent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	coretest.Put(t, d, x, coretest.Pattern(4096, 1))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	m, memoryErr := d.(core.MemoryExporter).ExportMemory(b, core.HandleIPC)
	event, eventErr := e.Export()
	if err := errors.Join(memoryErr, eventErr, e.Record(s)); err != nil {
		t.Fatal(err)
	}
	sent := marshal(t, m) + "," + marshal(t, event)
	coretest.Child(t, t.Name(), modeVariable+"="+sent)(t)
	if !bytes.Equal(coretest.Get(t, d, x), coretest.Pattern(4096, 2)) {
		t.Error("what the other process wrote did not arrive")
	}
	if err := d.(core.MemoryExporter).EndExport(b); err != nil {
		t.Error(err)
	}
}

// openHandles is what the other process does. It lets each call fail once first.
func openHandles(t *testing.T, d core.Device, s core.Stream, sent []string) {
	sim := kit.Simulator(t)
	for _, call := range []string{"hipIpcOpenMemHandle", "hipIpcOpenEventHandle", ""} {
		m, err := core.UnmarshalExternalMemory(unhex(t, sent[0]), nil)
		if err != nil {
			t.Fatal(err)
		}
		event, err := core.UnmarshalExternalEvent(unhex(t, sent[1]), nil)
		if err != nil {
			t.Fatal(err)
		}
		live := sim.Live()
		sim.Fail(call, 1, int(driver.OutOfMemory))
		l := coretest.Life{Context: t.Context()}
		x := l.Wrap(d.(core.MemoryImporter).ImportMemory(t.Context(), m))
		e, err := d.(core.IPCEventCreator).OpenIPCEvent(t.Context(), event)
		if l.Opened(e, err) && x != nil {
			l.OK(e.WaitOn(s))
			if got := coretest.Get(t, d, x); call == "" && !bytes.Equal(got, coretest.Pattern(4096, 1)) {
				t.Error("the memory has other bytes")
			}
			coretest.Put(t, d, x, coretest.Pattern(4096, 2))
		}
		switch err := l.End(); {
		case call != "":
			coretest.WantError(t, err, core.ErrOutOfMemory, call)
		case err != nil:
			t.Error(err)
		}
		_, _ = m.Close(), event.Close()
		cudaliketest.WantLive(t, sim, live, "allocations", "imports", "ipc")
	}
}

// marshal returns a handle as text.
func marshal(t *testing.T, x interface {
	MarshalWithFDs() ([]byte, []int, error)
}) string {
	t.Helper()
	data, fds, err := x.MarshalWithFDs()
	if err != nil || len(fds) != 0 {
		t.Fatalf("descriptors %v, error %v", fds, err)
	}
	return hex.EncodeToString(data)
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
