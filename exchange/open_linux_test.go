package exchange_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// exported allocates memory of the host that another process might have exported,
// and returns a function that makes descriptors of it.
func exported(t testing.TB, d core.Device) (*core.Tensor, func() core.ExternalMemory) {
	t.Helper()
	x := numbered(t, d, core.AllocOptions{Export: core.HandleMemFD}, 16)
	t.Cleanup(func() { _ = x.Close() })
	return x, func() core.ExternalMemory {
		b, err := x.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleMemFD)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// isOpen reports whether a handle has its descriptor, and closes it.
func isOpen(h *core.Handle) bool {
	_, empty := h.Number()
	return errors.Join(empty, h.Close()) == nil
}

var sixteen = core.Spec{DType: core.TypeInt32, Shape: []int64{16}}

func TestOpenSharesOneOpening(t *testing.T) {
	coretest.CheckNoLeaks(t)
	h := host(t)
	x, export := exported(t, h)
	fds, before := coretest.Descriptors(), liveOpened()
	var tensors []*core.Tensor
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range 8 {
		m := export()
		workers.Go(func() {
			got, err := exchange.Open(t.Context(), h, m, sixteen)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			tensors = append(tensors, got)
		})
	}
	workers.Wait()
	if n := liveOpened() - before; n != 1 {
		t.Errorf("one memory was opened %d times", n)
	}
	coretest.WantDescriptors(t, fds, "one memory that was opened often")
	write(t, h, x, make([]int32, 16))
	for _, got := range tensors {
		if have := read(t, h, got); have[15] != 0 {
			t.Errorf("the memory is another: %v", have)
		}
		_ = got.Close()
	}
	if n := liveOpened() - before; n != 0 {
		t.Errorf("%d memories are open after the last tensor", n)
	}
	got, err := exchange.Open(t.Context(), h, export(), sixteen)
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Close()
}

func TestOpenTellsMemoriesApart(t *testing.T) {
	h := host(t)
	_, one := exported(t, h)
	y, two := exported(t, h)
	write(t, h, y, make([]int32, 16))
	for i, m := range []core.ExternalMemory{one(), two()} {
		got, err := exchange.Open(t.Context(), h, m, sixteen)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		if have, want := read(t, h, got)[15], int32(15-15*i); have != want {
			t.Errorf("memory %d holds %d, want %d", i, have, want)
		}
	}
}

func TestADescriptorStaysTheCallersOnFailure(t *testing.T) {
	h := host(t)
	a, _ := newFakes(t, 0, imports)
	_, export := exported(t, h)
	open, err := exchange.Open(t.Context(), h, export(), sixteen)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, other := exported(t, h) // which nobody has opened
	large := core.Spec{DType: core.TypeInt32, Shape: []int64{17 << 10}}
	for _, c := range []struct {
		name   string
		ctx    context.Context
		dst    core.Device
		memory core.ExternalMemory
		spec   core.Spec
		want   error
	}{
		{"a nil device", t.Context(), nil, other(), sixteen, core.ErrInvalid},
		{"a device that imports nothing", t.Context(), a, other(), sixteen, core.ErrNotSupported},
		{"an ended context", ended, h, other(), sixteen, context.Canceled},
		{"a tensor that leaves the memory", t.Context(), h, other(), large, core.ErrLayout},
		{"a tensor that leaves memory that is open", t.Context(), h, export(), large, core.ErrLayout},
		{"a memory that claims to be larger", t.Context(), h, claim(other(), 1<<30), sixteen, core.ErrInvalid},
	} {
		before := liveOpened()
		if _, err := exchange.Open(c.ctx, c.dst, c.memory, c.spec); !errors.Is(err, c.want) {
			t.Errorf("%s gives %v, want %v", c.name, err, c.want)
		}
		if !isOpen(c.memory.Handle) {
			t.Errorf("%s: the descriptor was closed", c.name)
		}
		if n := liveOpened() - before; n != 0 {
			t.Errorf("%s: %d memories were left open", c.name, n)
		}
	}
	m := export()
	_ = m.Close()
	if _, err := exchange.Open(t.Context(), h, m, sixteen); !errors.Is(err, core.ErrClosed) {
		t.Errorf("an empty handle gives %v", err)
	}
	m = export()
	file := coretest.FD(t, m.Handle)
	wrong := m
	wrong.Handle = coretest.HandleOf(t, core.HandleOpaqueFD, file)
	_ = m.Close()
	m.Handle = coretest.DeadHandle(t, core.HandleMemFD)
	if _, err := exchange.Open(t.Context(), h, m, sixteen); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a closed descriptor gives %v", err)
	}
	if _, err := exchange.Open(t.Context(), h, wrong, sixteen); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("a type that the host does not import gives %v", err)
	}
}

func claim(m core.ExternalMemory, size int64) core.ExternalMemory {
	m.Size = size
	return m
}

// Memory of others moves on like any other.
func TestOpenedMemoryMovesOn(t *testing.T) {
	h := host(t)
	a, _ := newFakes(t, mapHost, 0)
	_, export := exported(t, h)
	got, err := exchange.Open(t.Context(), h, export(), sixteen)
	if err != nil {
		t.Fatal(err)
	}
	onA, report := to(t, got, a, exchange.Options{Copy: exchange.Never})
	check(t, report, 64, way{mechanism: exchange.Map})
	_ = got.Close()
	if have := read(t, a, onA); have[15] != 15 {
		t.Errorf("the result holds %v", have)
	}
}

// A descriptor that a failed import leaves is closed by the move that made it.
func TestAMoveThatFailsLeavesNoDescriptor(t *testing.T) {
	h := host(t)
	a, b := newFakes(t, exports, imports)
	x := numbered(t, a, core.AllocOptions{}, 16)
	defer x.Close()
	_, export := exported(t, h)
	from, dst := &fdExporter{fake: a, export: export}, &fdImporter{fake: b}
	m, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	memory := m.Memory()
	memory.Device = from
	src, err := core.Wrap(memory, sixteen)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	before := coretest.Descriptors()
	if _, _, err := exchange.To(t.Context(), src, dst, exchange.Options{Copy: exchange.Never}); !errors.Is(err, core.ErrDevice) {
		t.Errorf("the import gives %v", err)
	}
	coretest.WantDescriptors(t, before, "a failed import")
	if !dst.seen {
		t.Error("nothing was imported")
	}
}

// fdExporter exports by descriptor.
type fdExporter struct {
	*fake
	export func() core.ExternalMemory
}

func (f *fdExporter) ExportTypes() []core.HandleType { return []core.HandleType{core.HandleMemFD} }

func (f *fdExporter) ExportMemory(*core.Buffer, core.HandleType) (core.ExternalMemory, error) {
	return f.export(), nil
}

// fdImporter refuses every descriptor.
type fdImporter struct {
	*fake
	seen bool
}

func (f *fdImporter) ImportTypes() []core.HandleType { return []core.HandleType{core.HandleMemFD} }

func (f *fdImporter) ImportMemory(context.Context, core.ExternalMemory) (core.Memory, error) {
	f.seen = true
	return core.Memory{}, core.Errorf(core.ErrDevice, "fake", "ImportMemory", "not this one")
}
