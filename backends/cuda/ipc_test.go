//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

// exporterVariable is set in the process that exports. That process answers each line on descriptor 3 with a line on
// descriptor 4.
const exporterVariable = "DLX_CUDA_TEST_EXPORTER"

// message is what the exporter sends.
type message struct {
	Shared, Left   []byte // memory; Left is open until the process ends
	Event          []byte
	SharedByParent bool // the exporter has read what the parent wrote
}

// marshal returns x as another process gets it.
func marshal(t testing.TB, x interface {
	MarshalWithFDs() ([]byte, []int, error)
}) []byte {
	t.Helper()
	data, fds, err := x.MarshalWithFDs()
	if err != nil || len(fds) != 0 {
		t.Fatalf("descriptors %v, error %v", fds, err)
	}
	return data
}

// memory returns memory that the exporter sent, with a new handle.
func (x *exporter) memory(data []byte) core.ExternalMemory {
	x.Helper()
	m, err := core.UnmarshalExternalMemory(data, nil)
	if err != nil {
		x.Fatal(err)
	}
	return m
}

// event returns the event that the exporter sent, with a new handle.
func (x *exporter) event() core.ExternalEvent {
	x.Helper()
	e, err := core.UnmarshalExternalEvent(x.sent.Event, nil)
	if err != nil {
		x.Fatal(err)
	}
	return e
}

func newIPCEvent(t testing.TB, d core.Device) core.IPCEvent {
	t.Helper()
	e, err := d.(core.IPCEventCreator).NewIPCEvent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func exportEvent(t testing.TB, e core.IPCEvent) core.ExternalEvent {
	t.Helper()
	x, err := e.Export()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func openIPCEvent(t testing.TB, d core.Device, x core.ExternalEvent) (core.IPCEvent, error) {
	return d.(core.IPCEventCreator).OpenIPCEvent(t.Context(), x)
}

func endExport(d core.Device, x *core.Tensor) error {
	b, err := x.Buffer()
	if err != nil {
		return err
	}
	return d.(core.MemoryExporter).EndExport(b)
}

// exporter is another process, which exports memory and an event.
type exporter struct {
	testing.TB
	in   *json.Encoder
	out  *json.Decoder
	end  func()
	sent message
}

// startExporter starts an exporter, and waits until it has enqueued a copy of pattern 2 to Shared.
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
	var output bytes.Buffer
	child.Stdout, child.Stderr = &output, &output
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
			t.Errorf("the other process: %v\n%s", err, output.Bytes())
		}
		_ = out.Close()
	}
	t.Cleanup(x.end)
	x.next()
	return x
}

// next lets the exporter take its next step, and waits for its answer.
func (x *exporter) next() {
	x.Helper()
	if err := x.in.Encode("go on"); err != nil {
		x.Fatal(err)
	}
	if err := x.out.Decode(&x.sent); err != nil {
		x.end()
		x.Fatal(err)
	}
}

// export is the program of the exporter.
func export(t *testing.T) {
	in, out := json.NewDecoder(os.NewFile(3, "in")), json.NewEncoder(os.NewFile(4, "out"))
	next := func() bool {
		var line string
		return in.Decode(&line) == nil
	}
	d := opened(t)
	s := newStream(t, d)
	shared, left := row(t, d, 5000, core.AllocOptions{Export: core.HandleIPC}), row(t, d, 100, core.AllocOptions{Export: core.HandleIPC})
	e := newIPCEvent(t, d)
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	answer := message{Shared: marshal(t, exportIPC(t, d, shared)), Left: marshal(t, exportIPC(t, d, left)), Event: marshal(t, exportEvent(t, e))}

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
	if err := endExport(d, shared); err != nil {
		t.Error(err)
	}
	_ = shared.Close() // frees the memory, since the export has ended
	if err := out.Encode(answer); err != nil {
		t.Fatal(err)
	}
	next()
}

func exportIPC(t testing.TB, d core.Device, x *core.Tensor) core.ExternalMemory {
	t.Helper()
	m, err := d.(core.MemoryExporter).ExportMemory(buffer(t, x), core.HandleIPC)
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
	m := x.memory(x.sent.Shared)
	if m.Length != 5000 || m.Offset != 0 || m.Size%cudalike.IPCUnit != 0 || m.DeviceUUID != d.Properties().UUID {
		t.Errorf("%+v: want 5000 bytes at the start of %d", m, cudalike.IPCUnit)
	}
	e, err := openIPCEvent(t, d, x.event())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.WaitOn(s); err != nil {
		t.Fatal(err)
	}
	first, second := imported(t, d, m), imported(t, again, x.memory(x.sent.Shared))
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
		t.Error("the stream did not wait for the event of the other process")
	}
	part := x.memory(x.sent.Shared)
	part.Offset, part.Length = 77, 1000
	second = imported(t, d, part)
	if !bytes.Equal(get(t, d, second), pattern(5000, 2)[77:1077]) {
		t.Error("the part has wrong bytes")
	}
	_ = second.Close()
	put(t, d, first, pattern(5000, 3))
	_ = first.Close()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, e.WaitOn(s), core.ErrClosed, "WaitOn of a closed event")
	wantError(t, e.Record(s), core.ErrClosed, "Record of a closed event")
	refusals(t, d, x.memory(x.sent.Shared))

	left := imported(t, d, x.memory(x.sent.Left))
	x.next()
	if !x.sent.SharedByParent {
		t.Error("the other process sees other bytes than this one wrote")
	}
	_, err = d.(core.MemoryImporter).ImportMemory(t.Context(), x.memory(x.sent.Shared))
	wantError(t, err, core.ErrInvalid, "memory that was freed")
	_ = left.Close()
	x.end()
	_, err = d.(core.MemoryImporter).ImportMemory(t.Context(), x.memory(x.sent.Left))
	wantError(t, err, core.ErrInvalid, "memory of a process that has ended")
	_, err = openIPCEvent(t, d, x.event())
	wantError(t, err, core.ErrInvalid, "an event of a process that has ended")
}

// refusals imports good with one change at a time.
func refusals(t *testing.T, d core.Device, good core.ExternalMemory) {
	ipc := func(v core.Vendor, size int) *core.Handle {
		h, err := backendkit.NewIPCHandle(v, make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	empty, err := good.Duplicate()
	if err != nil || empty.Close() != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule   string
		change func(*core.ExternalMemory)
		want   error
	}{
		{"no handle", func(m *core.ExternalMemory) { m.Handle = nil }, core.ErrNotSupported},
		{"an empty handle", func(m *core.ExternalMemory) { m.Handle = empty.Handle }, core.ErrClosed},
		{"a handle of nothing", func(m *core.ExternalMemory) { m.Handle = ipc(core.VendorNVIDIA, 64) }, core.ErrInvalid},
		{"a handle that is short", func(m *core.ExternalMemory) { m.Handle = ipc(core.VendorNVIDIA, 63) }, core.ErrInvalid},
		{"a handle of another vendor", func(m *core.ExternalMemory) { m.Handle = ipc(core.VendorAMD, 64) }, core.ErrNotSupported},
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

// wantMappings checks how often memory of other processes is mapped. Only the simulator knows.
func wantMappings(t *testing.T, want int) {
	t.Helper()
	if sim, err := gpusim.Open(); err == nil && sim.Live()["ipc_mappings"] != want {
		t.Errorf("memory of other processes is mapped %d times, want %d", sim.Live()["ipc_mappings"], want)
	}
}

func TestAProcessOpensItsOwnMemoryInTheSameContext(t *testing.T) {
	sim := simulator(t)
	d, again, peer := opened(t), opened(t), opened(t, 1)
	x := row(t, d, 5000, core.AllocOptions{Export: core.HandleIPC})
	put(t, d, x, pattern(5000, 1))
	m := exportIPC(t, d, x)
	if again := exportIPC(t, d, x); !bytes.Equal(marshal(t, again), marshal(t, m)) {
		t.Error("a second export returned another handle")
	}
	y := imported(t, again, m)
	if !bytes.Equal(get(t, again, y), pattern(5000, 1)) {
		t.Error("other bytes")
	}
	elsewhere := exportIPC(t, d, x)
	elsewhere.DeviceUUID = peer.Properties().UUID
	_, err := peer.(core.MemoryImporter).ImportMemory(t.Context(), elsewhere)
	wantError(t, err, core.ErrNotSupported, "ImportMemory into another context of the process")

	if err := endExport(d, x); err != nil {
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
	e := newIPCEvent(t, d)
	defer e.Close()
	_, err := openIPCEvent(t, d, exportEvent(t, e))
	wantError(t, err, core.ErrNotSupported, "OpenIPCEvent")
}

func TestMemoryThatAnotherProcessMayHaveOpenIsNotFreed(t *testing.T) {
	sim := simulator(t)
	d := open(t)
	o := core.AllocOptions{Export: core.HandleIPC}
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
		if err := endExport(d, x); err != nil {
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
	plain, shared := row(t, d, 100, core.AllocOptions{}), row(t, d, 100, core.AllocOptions{Export: core.HandleIPC})
	empty := row(t, d, 0, core.AllocOptions{Export: core.HandleIPC})
	host := keep(t)(core.FromSlice([]byte{1}))
	for _, c := range []struct {
		rule string
		x    *core.Tensor
		d    core.Device
		want error
	}{
		{"plain memory", plain, d, core.ErrInvalid},
		{"no bytes", empty, d, core.ErrInvalid},
		{"memory of the host", host, d, core.ErrDevice},
		{"memory of another opening", shared, again, core.ErrDevice},
	} {
		_, err := c.d.(core.MemoryExporter).ExportMemory(buffer(t, c.x), core.HandleIPC)
		wantError(t, err, c.want, "ExportMemory of "+c.rule)
		wantError(t, endExport(c.d, c.x), c.want, "EndExport of "+c.rule)
	}
	if err := endExport(d, shared); err != nil {
		t.Errorf("EndExport of memory that was not exported: %v", err)
	}
}

func TestAnIPCEventBelongsToItsDevice(t *testing.T) {
	d, p := open(t), closedAtEnd(t, second(t))
	s := newStream(t, p)
	e := newIPCEvent(t, d)
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
	_, err := d.(core.IPCEventCreator).NewIPCEvent(t.Context())
	wantError(t, err, core.ErrClosed, "NewIPCEvent of a closed device")
	nothing, err := backendkit.NewIPCHandle(core.VendorNVIDIA, make([]byte, 64))
	if err != nil {
		t.Fatal(err)
	}
	_, err = openIPCEvent(t, p, core.ExternalEvent{Handle: nothing, DeviceUUID: p.Properties().UUID})
	wantError(t, err, core.ErrInvalid, "OpenIPCEvent of a handle of nothing")
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.(core.IPCEventCreator).NewIPCEvent(ended); err != context.Canceled {
		t.Errorf("NewIPCEvent with an ended context: %v", err)
	}
}
