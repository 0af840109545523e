package exchange_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// openAll opens the first device of every backend of this build so many times, and each other one once, the
// host first. The test closes them at its end. A backend without a driver is left out
// where drivers may be missing.
func openAll(t testing.TB, times int) []core.Device {
	t.Helper()
	var devices []core.Device
	t.Cleanup(func() {
		for _, d := range slices.Backward(devices) {
			if err := d.Close(); err != nil {
				t.Errorf("closing %v: %v", d.ID(), err)
			}
		}
	})
	for _, b := range all.New().Backends() {
		if coretest.LeavesOut(t, b.Probe(t.Context()).Reason, "a driver for "+b.Name()) {
			continue
		}
		list, err := b.Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			n := times
			if p.ID.Index > 0 {
				n = 1
			}
			for range n {
				d, err := b.Open(t.Context(), p.ID)
				if err != nil {
					t.Fatal(err)
				}
				devices = append(devices, d)
			}
		}
	}
	return devices
}

// source is a kind of memory that a tensor may come in.
type source struct {
	name  string
	alloc core.AllocOptions
}

// sources are the kinds of memory of a device.
func sources(d core.Device) []source {
	caps := d.Properties().Capabilities
	list := []source{{name: "plain"}}
	if caps.Has(core.CapHostView) {
		list = append(list, source{"visible", core.AllocOptions{HostVisible: true}})
	}
	switch d.ID().Type {
	case core.DeviceCUDA:
		list = append(list, source{"pinned", core.AllocOptions{Type: core.DeviceCUDAHost}}, source{"managed", core.AllocOptions{Type: core.DeviceCUDAManaged}})
	case core.DeviceROCM:
		list = append(list, source{"pinned", core.AllocOptions{Type: core.DeviceROCMHost}})
	}
	if caps.Has(core.CapExportMemory) {
		for _, h := range d.(core.MemoryExporter).ExportTypes() {
			list = append(list, source{h.String(), core.AllocOptions{Export: h}})
		}
	}
	return list
}

// promised reports whether the capabilities of two devices promise that memory of
// this kind is shared.
func promised(from, to core.Device, s source) bool {
	p, q := from.Properties(), to.Properties()
	onHost := func(d core.Device) bool {
		return d.ID().Type.HostAccessible() || d == from && s.alloc.Type.HostAccessible()
	}
	switch {
	case from == to && s.alloc.Type != 0:
		return false // memory of the device is wanted
	case from == to || onHost(from) && onHost(to):
		return true
	case onHost(from):
		id := p.ID
		if s.alloc.Type != 0 {
			id.Type = s.alloc.Type
		}
		return maps(to, core.Memory{ID: id})
	case s.alloc.HostVisible && onHost(to):
		return true
	case s.alloc.HostVisible && maps(to, core.Memory{ID: core.CPU, Origin: p.ID.Type}):
		return true
	case s.alloc.Export != 0 && q.Capabilities.Has(core.CapImportMemory):
		if p.ID.Type != q.ID.Type && (s.alloc.Export == core.HandleIPC || card(from) && card(to)) {
			return false // drivers of two vendors
		}
		driver := p.DriverUUID == q.DriverUUID || p.DriverUUID == core.UUID{} || q.DriverUUID == core.UUID{}
		opens := core.SamePhysicalDevice(p, q) && driver
		switch s.alloc.Export {
		case core.HandleMemFD:
			opens = true
		case core.HandleDMABuf: // whose driver may be another one
			opens = p.UUID == core.UUID{} || core.SamePhysicalDevice(p, q)
		}
		return opens && slices.Contains(to.(core.MemoryImporter).ImportTypes(), s.alloc.Export)
	}
	return false
}

// card reports whether a device is of an API of one vendor.
func card(d core.Device) bool {
	return d.ID().Type == core.DeviceCUDA || d.ID().Type == core.DeviceROCM
}

// maps reports whether a device promises to map memory of the host.
func maps(d core.Device, m core.Memory) bool {
	mapper, ok := core.As[core.HostMapper](d)
	return ok && mapper.CanMap(m) == nil
}

// refusedByDriver reports whether a driver has refused to import an address, which VK_EXT_external_memory_host allows
// for any address, and above all for one that another device of the same hardware has imported.
func refusedByDriver(r exchange.Report) bool {
	return slices.ContainsFunc(r.Refused(), func(r exchange.Refusal) bool {
		return strings.Contains(r.Reason, "VK_ERROR_INVALID_EXTERNAL_HANDLE")
	})
}

// views are layouts of a tensor of 64 x 256 elements.
var views = []struct {
	name string
	make func(*core.Tensor) (*core.Tensor, error)
}{
	{"contiguous", (*core.Tensor).Share},
	{"strided", func(x *core.Tensor) (*core.Tensor, error) { return x.Slice(1, 3, 250, 5) }},
	{"transposed", (*core.Tensor).Transpose},
}

// The short test has one view of each source for each pair, and each view in turn. A quick test has plain
// memory and every other one of the other kinds.
func TestEveryPairOfDevices(t *testing.T) {
	coretest.CheckNoLeaks(t)
	devices := openAll(t, 2)
	for i, from := range devices {
		for j, to := range devices {
			for k, s := range sources(from) {
				for l, v := range views {
					if testing.Short() && (i+j+k+l)%len(views) != 0 || coretest.Quick() && ((again(devices, i) || again(devices, j)) && from.ID() != to.ID() || k > 0 && (i+j+k)%2 != 0) {
						continue
					}
					name := fmt.Sprintf("%v(%d) to %v(%d), %s, %s", from.ID(), i, to.ID(), j, s.name, v.name)
					t.Run(name, func(t *testing.T) { pair(t, from, to, s, v.make) })
				}
			}
		}
	}
}

// again reports whether devices[i] is the device before it, opened once more.
func again(devices []core.Device, i int) bool {
	return i > 0 && devices[i].ID() == devices[i-1].ID()
}

// The same with simulated devices whose memories are parts of larger objects, each
// with an offset, and whose work runs as late as it may.
func TestEveryPairOfOpaqueDevices(t *testing.T) {
	coretest.CheckNoLeaks(t)
	devices := []core.Device{host(t)}
	b := coretest.NewBackend(coretest.Options{Opaque: true, Submit: stream.Submit, Log: t.Logf})
	list, err := b.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		d, err := b.Open(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Errorf("closing %v: %v", d.ID(), err)
			}
		})
		devices = append(devices, d)
	}
	for _, from := range devices {
		for _, to := range devices {
			for _, s := range sources(from) {
				for _, v := range views {
					name := fmt.Sprintf("%v to %v, %s, %s", from.ID(), to.ID(), s.name, v.name)
					t.Run(name, func(t *testing.T) { pair(t, from, to, s, v.make) })
				}
			}
		}
	}
}

// Memory of strangers on a device with handles is adopted by its handle and offset.
func TestOpaqueMemoryOfStrangers(t *testing.T) {
	b := coretest.NewBackend(coretest.Options{Opaque: true, Submit: stream.Submit, Log: t.Logf})
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceWebGPU})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	first := numbered(t, d, core.AllocOptions{}, 16)
	defer first.Close()
	own := numbered(t, d, core.AllocOptions{}, 16) // behind the first, in the same object
	defer own.Close()
	buffer, err := own.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	m := buffer.Memory()
	m.Device = nil
	stranger, err := core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{15}, Offset: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	got, report := to(t, stranger, d, exchange.Options{})
	check(t, report, 60, way{mechanism: exchange.Alias})
	if have := read(t, d, got); m.Offset == 0 || have[0] != 1 || have[14] != 15 {
		t.Errorf("at offset %d: the result holds %v", m.Offset, have)
	}
	_ = got.Close()
}

// OpenCL and OpenGL have no call that exports memory, whoever made the object. The plan says so, and is the move.
func TestMemoryOfAPIsThatExportNothingMovesAsPlanned(t *testing.T) {
	devices := openAll(t, 1)
	for _, from := range devices {
		if api := from.ID().Type.BackendName(); api != "opencl" && api != "gl" {
			continue
		}
		own := numbered(t, from, core.AllocOptions{}, 64)
		defer own.Close()
		b, err := own.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		m, err := from.(core.PointerImporter).ImportPointer(b.Memory().Handle, 256, nil)
		if err != nil {
			t.Fatal(err)
		}
		stranger, err := core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{64}})
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		for _, dst := range devices {
			if dst == from || card(dst) {
				continue
			}
			for _, mode := range []exchange.Copy{exchange.IfNeeded, exchange.Always} {
				t.Run(fmt.Sprintf("%v to %v, %v", from.ID(), dst.ID(), mode), func(t *testing.T) {
					route, err := exchange.Plan(stranger, dst, exchange.Options{Copy: mode})
					if err != nil {
						t.Fatal(err)
					}
					got, report := to(t, stranger, dst, exchange.Options{Copy: mode})
					_ = got.Close()
					if route.String() != report.String() {
						t.Errorf("planned: %v\nmoved: %v", route, report)
					}
					if dst.ID().Type != core.DeviceCPU && !strings.Contains(report.String(), "has no call that exports memory") {
						t.Errorf("it is not said why the memory is not exported: %v", report)
					}
				})
			}
		}
	}
}

// pair moves a tensor between two devices, twice shared where that can be and once copied.
func pair(t *testing.T, from, dst core.Device, s source, view func(*core.Tensor) (*core.Tensor, error)) {
	whole := numbered(t, from, s.alloc, 64, 256)
	defer whole.Close()
	src, err := view(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	want := read(t, from, src)
	if _, err := exchange.Plan(src, dst, exchange.Options{}); err != nil {
		t.Error(err)
	}
	got, report := to(t, src, dst, exchange.Options{})
	t.Logf("%v, %d bytes copied; %+v; refused %+v", report.Mechanism, report.BytesCopied, report.Steps(), report.Refused())
	if report.BytesCopied != report.Mechanism.Copies()*src.NumBytes() {
		t.Errorf("%v copied %d of %d bytes", report.Mechanism, report.BytesCopied, src.NumBytes())
	}
	shared := report.Mechanism.Copies() == 0
	if !shared && promised(from, dst, s) && !refusedByDriver(report) {
		t.Errorf("%v, although the devices promise to share: %+v", report.Mechanism, report.Refused())
	}
	if !shared && (from.ID().Type.HostAccessible() || dst.ID().Type.HostAccessible()) && report.Mechanism != exchange.Direct {
		t.Errorf("the host and a device need one copy, it was %v: %+v", report.Mechanism, report.Refused())
	}
	if have := read(t, dst, got); !slices.Equal(have, want) || got.Device() != dst {
		t.Errorf("the elements have changed, on %v", got.Device())
	}

	again, second := to(t, src, dst, exchange.Options{Stream: newStream(t, dst)})
	if second.Opened || second.Mechanism != report.Mechanism {
		t.Errorf("the second move: %+v", second)
	}
	fresh, third := to(t, src, dst, exchange.Options{Copy: exchange.Always})
	if third.BytesCopied < src.NumBytes() {
		t.Errorf("a fresh copy: %+v", third)
	}
	if have := read(t, dst, fresh); !slices.Equal(have, want) {
		t.Error("a fresh copy has other elements")
	}

	// A write at the source is seen through memory that is shared, and by no copy.
	changed := make([]int32, whole.NumElements())
	for i := range changed {
		changed[i] = int32(-i)
	}
	write(t, from, whole, changed)
	now := read(t, from, src)
	for name, x := range map[string]*core.Tensor{"first": got, "second": again, "fresh": fresh} {
		expected := want
		if shared && x != fresh {
			expected = now
		}
		if have := read(t, dst, x); !slices.Equal(have, expected) {
			t.Errorf("after a write to the source the %s result has other elements than it should", name)
		}
	}
	if !shared {
		return
	}
	// And a write at the destination is seen by the source, after the event of the write.
	dstWhole, _ := to(t, whole, dst, exchange.Options{})
	fill := make([]int32, whole.NumElements())
	v := slice(t, fill, whole.Shape()...)
	st := newStream(t, dst)
	if err := dst.Copy(t.Context(), st, dstWhole, v); err != nil {
		t.Fatal(err)
	}
	if have := read(t, from, src); have[len(have)-1] != 0 {
		t.Error("the source does not see what the destination wrote")
	}
}

// A stream of the source writes, one of the destination reads, and nobody waits
// but as the report says.
func TestEveryPairKeepsTheOrder(t *testing.T) {
	devices := openAll(t, 1)
	for _, from := range devices {
		for _, dst := range devices {
			t.Run(fmt.Sprintf("%v to %v", from.ID(), dst.ID()), func(t *testing.T) {
				src := numbered(t, from, core.AllocOptions{}, 1<<18)
				defer src.Close()
				writer, reader := newStream(t, from), newStream(t, dst)
				values, have := make([]int32, 1<<18), make([]int32, 1<<18)
				v, h := slice(t, values), slice(t, have)
				for round := range int32(4) {
					if err := writer.Synchronize(t.Context()); err != nil {
						t.Fatal(err)
					}
					for i := range values {
						values[i] = int32(i) ^ round<<20
					}
					if err := from.Copy(t.Context(), writer, src, v); err != nil {
						t.Fatal(err)
					}
					got, report := to(t, src, dst, exchange.Options{Stream: reader, SourceStream: writer})
					if err := dst.Copy(t.Context(), reader, h, got); err != nil {
						t.Fatal(err)
					}
					if err := reader.Synchronize(t.Context()); err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(have, values) {
						t.Fatalf("round %d: the reader came before the writer; %v", round, report.Wait)
					}
					if round == 0 && report.Wait == stream.SemaphoreWait {
						t.Log("a shared semaphore")
					}
				}
			})
		}
	}
}

func TestStagedBetweenEveryPair(t *testing.T) {
	devices := openAll(t, 1)
	for _, from := range devices {
		if from.ID().Type.HostAccessible() {
			continue
		}
		whole := numbered(t, from, core.AllocOptions{}, 700, 1001) // several pieces, none of them full
		part, err := whole.Slice(1, 1000, 2, -3)
		if err != nil {
			t.Fatal(err)
		}
		for _, src := range []*core.Tensor{whole, part} {
			want := read(t, from, src)
			for _, dst := range devices {
				if from == dst || dst.ID().Type.HostAccessible() {
					continue
				}
				got, report := to(t, src, dst, exchange.Options{Only: exchange.Staged})
				if report.BytesCopied != 2*src.NumBytes() || !slices.Equal(read(t, dst, got), want) {
					t.Errorf("%v to %v: other elements, or %d bytes copied", from.ID(), dst.ID(), report.BytesCopied)
				}
			}
			_ = src.Close()
		}
	}
}

func TestHammerDevices(t *testing.T) {
	coretest.CheckNoLeaks(t)
	devices := openAll(t, 1)
	h := devices[0]
	var roots []*core.Tensor
	for _, d := range devices {
		for _, s := range sources(d) {
			x := numbered(t, d, s.alloc, 1<<12)
			defer x.Close()
			roots = append(roots, x)
		}
	}
	ctx := t.Context()
	end := time.Now().Add(2 * time.Second)
	var workers sync.WaitGroup
	for g := range 8 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 4))
			for time.Now().Before(end) {
				if err := wander(ctx, r, roots[r.IntN(len(roots))], devices, h); err != nil {
					t.Errorf("goroutine %d: %v", g, err)
					return
				}
			}
		})
	}
	workers.Wait()
}
