//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/gpusim"
)

// exporterVariable tells the test binary that it is the process that exports: it
// answers each line on descriptor 3 with one on descriptor 4.
const exporterVariable = "DLX_CUDA_TEST_EXPORTER"

// given is what the exporter gives.
type given struct {
	Shared, Left   core.ExternalMemory // Left stays open until the process ends
	Event          [64]byte
	SharedByParent bool // what the parent wrote has arrived
}

// exporter is another process.
type exporter struct {
	testing.TB
	in    *json.Encoder
	out   *json.Decoder
	end   func()
	given given
}

// startExporter starts one, which has begun to write pattern 2 to what it shares.
func startExporter(t *testing.T) *exporter {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inEnd, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, outEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self, "-test.run=^TestMemoryAndOrderOfAnotherProcess$", "-test.count=1")
	child.Env = append(os.Environ(), exporterVariable+"=1")
	child.ExtraFiles = []*os.File{inEnd, outEnd}
	var said bytes.Buffer
	child.Stdout, child.Stderr = &said, &said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = inEnd.Close(), outEnd.Close()
	x := &exporter{TB: t, in: json.NewEncoder(in), out: json.NewDecoder(out)}
	ended := false
	x.end = func() {
		if ended {
			return
		}
		ended = true
		_ = in.Close() // the exporter ends
		if err := child.Wait(); err != nil {
			t.Errorf("the other process: %v\n%s", err, said.Bytes())
		}
		_ = out.Close()
	}
	t.Cleanup(x.end)
	x.next()
	return x
}

// next lets the exporter take its next step.
func (x *exporter) next() {
	x.Helper()
	if err := x.in.Encode("go on"); err != nil {
		x.Fatal(err)
	}
	if err := x.out.Decode(&x.given); err != nil {
		x.end()
		x.Fatal(err)
	}
}

// export is what the exporter does.
func export(t *testing.T) {
	in, out := json.NewDecoder(os.NewFile(3, "in")), json.NewEncoder(os.NewFile(4, "out"))
	next := func() bool {
		var line string
		return in.Decode(&line) == nil
	}
	d := opened(t)
	s := newStream(t, d)
	shared, left := row(t, d, 5000, core.AllocOptions{Export: core.HandleCUDAIPC}), row(t, d, 100, core.AllocOptions{Export: core.HandleCUDAIPC})
	e, err := NewIPCEvent(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	answer := given{Shared: exportIPC(t, d, shared), Left: exportIPC(t, d, left), Event: e.Handle()}

	next()
	if err := d.Copy(t.Context(), s, shared, keep(t)(core.FromSlice(pattern(5000, 2)))); err != nil {
		t.Fatal(err)
	}
	if err := e.Record(s); err != nil {
		t.Fatal(err)
	}
	if err := out.Encode(answer); err != nil {
		t.Fatal(err)
	}
	next()
	answer.SharedByParent = bytes.Equal(get(t, d, shared), pattern(5000, 3))
	if err := EndExport(buffer(t, shared)); err != nil {
		t.Error(err)
	}
	_ = shared.Close() // and freed
	if err := out.Encode(answer); err != nil {
		t.Fatal(err)
	}
	next()
}

func exportIPC(t testing.TB, d core.Device, x *core.Tensor) core.ExternalMemory {
	t.Helper()
	m, err := d.(core.MemoryExporter).ExportMemory(buffer(t, x), core.HandleCUDAIPC)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoryAndOrderOfAnotherProcess(t *testing.T) {
	if os.Getenv(exporterVariable) != "" {
		export(t)
		return
	}
	d, again := opened(t), opened(t)
	s := newStream(t, d)
	x := startExporter(t)
	m := x.given.Shared
	if m.Length != 5000 || m.Offset != 0 || m.Size%cudalike.IPCUnit != 0 || m.DeviceUUID != d.Properties().UUID {
		t.Errorf("%+v: want 5000 bytes at the start of %d", m, cudalike.IPCUnit)
	}
	e, err := OpenIPCEvent(t.Context(), d, x.given.Event)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WaitOn(s); err != nil {
		t.Fatal(err)
	}
	first, second := imported(t, d, m), imported(t, again, m)
	wantMappings(t, 1)
	a, _ := first.Address()
	if b, _ := second.Address(); a != b {
		t.Errorf("the allocation lies at %#x and at %#x", a, b)
	}
	_ = second.Close()
	got := make([]byte, 5000)
	if err := d.Copy(t.Context(), s, keep(t)(core.FromSlice(got)), first); err != nil {
		t.Fatal(err)
	}
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, pattern(5000, 2)) {
		t.Error("the event did not hold the stream back until the other process had written")
	}
	part := m
	part.Offset, part.Length = 77, 1000
	second = imported(t, d, part)
	if !bytes.Equal(get(t, d, second), pattern(5000, 2)[77:1077]) {
		t.Error("a part is other bytes")
	}
	_ = second.Close()
	put(t, d, first, pattern(5000, 3))
	_ = first.Close()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, e.WaitOn(s), core.ErrClosed, "WaitOn of a closed event")
	wantError(t, e.Record(s), core.ErrClosed, "Record of a closed event")
	refusals(t, d, m)

	left := imported(t, d, x.given.Left)
	x.next()
	if !x.given.SharedByParent {
		t.Error("the other process sees other bytes than this one wrote")
	}
	_, err = d.(core.MemoryImporter).ImportMemory(t.Context(), m)
	wantError(t, err, core.ErrInvalid, "memory that was freed")
	_ = left.Close()
	x.end()
	_, err = d.(core.MemoryImporter).ImportMemory(t.Context(), x.given.Left)
	wantError(t, err, core.ErrInvalid, "memory of a process that has ended")
	_, err = OpenIPCEvent(t.Context(), d, x.given.Event)
	wantError(t, err, core.ErrInvalid, "an event of a process that has ended")
}

// refusals changes a good handle.
func refusals(t *testing.T, d core.Device, good core.ExternalMemory) {
	for _, c := range []struct {
		rule   string
		change func(*core.ExternalMemory)
		want   error
	}{
		{"no handle", func(m *core.ExternalMemory) { m.Opaque = [64]byte{} }, core.ErrInvalid},
		{"memory of another device", func(m *core.ExternalMemory) { m.DeviceUUID[3] ^= 1 }, core.ErrDevice},
		{"more than was allocated", func(m *core.ExternalMemory) { m.Size += cudalike.IPCUnit }, core.ErrInvalid},
		{"a part outside", func(m *core.ExternalMemory) { m.Offset, m.Length = m.Size-1, 2 }, core.ErrInvalid},
		{"a negative offset", func(m *core.ExternalMemory) { m.Offset = -1 }, core.ErrInvalid},
		{"no bytes", func(m *core.ExternalMemory) { m.Length = 0 }, core.ErrInvalid},
	} {
		m := good
		c.change(&m)
		_, err := d.(core.MemoryImporter).ImportMemory(t.Context(), m)
		wantError(t, err, c.want, c.rule)
	}
	wantMappings(t, 0)
}

// wantMappings checks how often memory of other processes is mapped. A card does not tell.
func wantMappings(t *testing.T, want int) {
	t.Helper()
	if sim, err := gpusim.Open(); err == nil && sim.Live()["ipc_mappings"] != want {
		t.Errorf("memory of other processes is mapped %d times, want %d", sim.Live()["ipc_mappings"], want)
	}
}

func TestAProcessOpensItsOwnMemoryInTheSameContext(t *testing.T) {
	sim := simulator(t)
	d, again, peer := opened(t), opened(t), opened(t, 1)
	x := row(t, d, 5000, core.AllocOptions{Export: core.HandleCUDAIPC})
	put(t, d, x, pattern(5000, 1))
	m := exportIPC(t, d, x)
	if again := exportIPC(t, d, x); again != m {
		t.Error("another export gives another handle")
	}
	y := imported(t, again, m)
	if !bytes.Equal(get(t, again, y), pattern(5000, 1)) {
		t.Error("other bytes")
	}
	elsewhere := m
	elsewhere.DeviceUUID = peer.Properties().UUID
	_, err := peer.(core.MemoryImporter).ImportMemory(t.Context(), elsewhere)
	wantError(t, err, core.ErrNotSupported, "ImportMemory into another context of the process")

	if err := EndExport(buffer(t, x)); err != nil {
		t.Error(err)
	}
	frees := sim.Count("cuMemFree")
	if _ = x.Close(); sim.Count("cuMemFree") != frees {
		t.Error("the memory was freed while an import is open")
	}
	if !bytes.Equal(get(t, again, y), pattern(5000, 1)) {
		t.Error("the memory did not outlive its first owner")
	}
	if _ = y.Close(); sim.Count("cuMemFree") != frees+1 {
		t.Error("the memory was not freed with its last user")
	}
}

func TestAProcessDoesNotOpenItsOwnEvent(t *testing.T) {
	d := opened(t)
	e, err := NewIPCEvent(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = OpenIPCEvent(t.Context(), d, e.Handle())
	wantError(t, err, core.ErrNotSupported, "OpenIPCEvent")
}

func TestMemoryThatOthersMayHaveOpenIsNotFreed(t *testing.T) {
	sim := simulator(t)
	d := open(t)
	o := core.AllocOptions{Export: core.HandleCUDAIPC}
	frees := func(f func(x *core.Tensor)) int {
		x := row(t, d, 100, o)
		f(x)
		before := sim.Count("cuMemFree")
		_ = x.Close()
		return sim.Count("cuMemFree") - before
	}
	if n := frees(func(*core.Tensor) {}); n != 1 {
		t.Errorf("memory that was not exported was freed %d times", n)
	}
	if n := frees(func(x *core.Tensor) { exportIPC(t, d, x) }); n != 0 {
		t.Errorf("memory that was exported was freed %d times", n)
	}
	if s := d.(core.PoolController).PoolStats(); s.InUse != cudalike.IPCUnit {
		t.Errorf("%d bytes are in use, want the %d of what was exported", s.InUse, cudalike.IPCUnit)
	}
	n := frees(func(x *core.Tensor) {
		exportIPC(t, d, x)
		if err := EndExport(buffer(t, x)); err != nil {
			t.Error(err)
		}
	})
	if n != 1 {
		t.Errorf("memory whose export has ended was freed %d times", n)
	}
	before := sim.Count("cuMemFree")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := sim.Count("cuMemFree") - before; n == 0 {
		t.Error("Close of the device did not free what was exported")
	}
}

func TestOnlyMemoryMadeForOtherProcessesIsExported(t *testing.T) {
	d, again := opened(t), opened(t)
	plain, shared := row(t, d, 100, core.AllocOptions{}), row(t, d, 100, core.AllocOptions{Export: core.HandleCUDAIPC})
	empty := row(t, d, 0, core.AllocOptions{Export: core.HandleCUDAIPC})
	host := keep(t)(core.FromSlice([]byte{1}))
	for _, c := range []struct {
		rule        string
		x           *core.Tensor
		d           core.Device
		export, end error
	}{
		{"plain memory", plain, d, core.ErrInvalid, core.ErrInvalid},
		{"no bytes", empty, d, core.ErrInvalid, core.ErrInvalid},
		{"memory of the host", host, d, core.ErrDevice, core.ErrDevice},
		{"memory of another opening", shared, again, core.ErrDevice, nil},
	} {
		_, err := c.d.(core.MemoryExporter).ExportMemory(buffer(t, c.x), core.HandleCUDAIPC)
		wantError(t, err, c.export, "ExportMemory of "+c.rule)
		if err := EndExport(buffer(t, c.x)); c.end != nil {
			wantError(t, err, c.end, "EndExport of "+c.rule)
		} else if err != nil {
			t.Errorf("EndExport of %s: %v", c.rule, err)
		}
	}
	wantError(t, EndExport(nil), core.ErrInvalid, "EndExport of nil")
}

func TestAnIPCEventBelongsToItsDevice(t *testing.T) {
	d, p := open(t), closedAtEnd(t, second(t))
	s := newStream(t, p)
	e, err := NewIPCEvent(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, e.Record(s), core.ErrDevice, "Record on a stream of another device")
	wantError(t, e.WaitOn(nil), core.ErrDevice, "WaitOn without a stream")
	wantError(t, d.Close(), core.ErrInvalid, "Close of the device while the event is open")
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = NewIPCEvent(t.Context(), d)
	wantError(t, err, core.ErrClosed, "NewIPCEvent of a closed device")
	_, err = OpenIPCEvent(t.Context(), p, [64]byte{})
	wantError(t, err, core.ErrInvalid, "OpenIPCEvent of no handle")
	_, err = NewIPCEvent(t.Context(), nil)
	wantError(t, err, core.ErrDevice, "NewIPCEvent without a device")
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := NewIPCEvent(ended, p); err != context.Canceled {
		t.Errorf("NewIPCEvent with an ended context: %v", err)
	}
}
