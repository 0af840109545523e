package exchange_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// alias is memory under one of its names: uint8 elements, of which the first is the
// byte at first in the memory that all aliases of a set share.
type alias struct {
	name  string
	t     *core.Tensor
	first int64
}

// aliases are names of one memory, as a test collects them.
type aliases struct {
	*testing.T
	devices []core.Device
	all     []alias
	content []byte // of the memory before each copy
}

// add takes a tensor over and keeps it until the test ends.
func (a *aliases) add(name string, first int64, t *core.Tensor) *core.Tensor {
	a.Helper()
	a.Cleanup(func() { t.Close() })
	a.all = append(a.all, alias{name, t, first})
	return t
}

// everywhere adds what t is shared as with each device.
func (a *aliases) everywhere(name string, first int64, t *core.Tensor) {
	a.Helper()
	for _, d := range a.devices {
		if d == t.Device() {
			continue
		}
		if x, _, err := exchange.To(a.Context(), t, d, exchange.Options{Copy: exchange.Never}); err == nil {
			a.add(fmt.Sprintf("%s on %v", name, d.ID()), first, x)
		}
	}
}

// ofHost adds a slice and what it is shared as: twice, and parts of it.
func (a *aliases) ofHost(name string, values []byte) {
	a.Helper()
	n := int64(len(values))
	for _, part := range [][2]int64{{0, n}, {0, n}, {3, n - 5}} {
		what := fmt.Sprintf("%s[%d:%d]", name, part[0], part[1])
		a.everywhere(what, part[0], a.add(what, part[0], slice(a.T, values[part[0]:part[1]])))
	}
}

// foreign adds t as another library hands it back: a handle or an address of no opened device.
func (a *aliases) foreign(t *core.Tensor) {
	a.Helper()
	if t.DeviceID().Type == core.DeviceGL { // its names mean nothing without their context
		return
	}
	b, err := t.Buffer()
	if err != nil {
		a.Fatal(err)
	}
	m := b.Memory()
	x, err := core.Wrap(core.Memory{ID: m.ID, Handle: m.Handle, Offset: m.Offset, Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: t.Shape()})
	if err != nil {
		a.Fatal(err)
	}
	a.everywhere("foreign", 0, a.add("foreign", 0, x))
	for _, d := range a.devices {
		if i, ok := d.(core.PointerImporter); ok && d == t.Device() && m.Offset == 0 {
			m, err := i.ImportPointer(m.Handle, m.Size, nil)
			if err != nil {
				a.Fatal(err)
			}
			x, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: t.Shape()})
			if err != nil {
				a.Fatal(err)
			}
			a.add("foreign, imported", 0, x)
		}
	}
}

// bytesOn allocates uint8 elements.
func (a *aliases) bytesOn(d core.Device, size int64, o core.AllocOptions) *core.Tensor {
	a.Helper()
	t, err := core.Empty(a.Context(), d, core.TypeUint8, []int64{size}, o)
	if err != nil {
		a.Fatal(err)
	}
	return t
}

// exported adds what memory that d exports is when this process imports it again.
func (a *aliases) exported(d core.Device, size int64, o core.AllocOptions) {
	a.Helper()
	t := a.add(fmt.Sprintf("%v for %v", d.ID(), o.Export), 0, a.bytesOn(d, size, o))
	a.everywhere("exported", 0, t)
	b, err := t.Buffer()
	if err != nil {
		a.Fatal(err)
	}
	for _, by := range a.devices {
		i, ok := by.(core.MemoryImporter)
		if !ok || !slices.Contains(i.ImportTypes(), o.Export) {
			continue
		}
		for _, part := range [][2]int64{{0, size}, {size / 4, size}} {
			for _, directly := range []bool{true, false} {
				x, err := d.(core.MemoryExporter).ExportMemory(b, o.Export)
				if err != nil {
					a.Fatal(err)
				}
				x.Offset, x.Length = x.Offset+part[0], part[1]-part[0]
				t, err := a.opened(by, x, directly)
				if err != nil { // another device's, or one that takes no part
					if directly && part[0] == 0 {
						a.Logf("%v does not import it: %v", by.ID(), err)
					}
					_ = x.Close()
					continue
				}
				a.add(fmt.Sprintf("import of %d:%d by %v", part[0], part[1], by.ID()), part[0], t)
			}
		}
	}
}

// opened imports x, by the device's own method or by Open.
func (a *aliases) opened(by core.Device, x core.ExternalMemory, directly bool) (*core.Tensor, error) {
	spec := core.Spec{DType: core.TypeUint8, Shape: []int64{x.Length}}
	if !directly {
		return exchange.Open(a.Context(), by, x, spec)
	}
	m, err := by.(core.MemoryImporter).ImportMemory(a.Context(), x)
	if err != nil {
		return nil, err
	}
	t, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
	}
	return t, err
}

// part is a row of bytes of the memory, from first on, step by step.
type part struct{ first, count, step int64 }

// of makes the part a view of an alias.
func (p part) of(a alias) (*core.Tensor, error) {
	b, err := a.t.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{p.count}, Strides: []int64{p.step},
		Offset: a.t.Offset() - b.Memory().Offset + p.first - a.first})
}

// The sizes at which all pairs of names are tried, and at which drivers copy by threads.
const (
	allPairs = 4 << 10
	large    = 1 << 20
)

// overlaps are copies within n bytes from low on.
func overlaps(low, n int64) []struct {
	name     string
	dst, src part
	works    bool // no byte is both read and written
	large    bool // tried in large memory, too
} {
	m := n / 2
	return []struct {
		name     string
		dst, src part
		works    bool
		large    bool
	}{
		{"reversed", part{low, n, 1}, part{low + n - 1, n, -1}, false, true},
		{"shifted by one", part{low + 1, n - 1, 1}, part{low, n - 1, 1}, false, true},
		{"shifted back by one", part{low, n - 1, 1}, part{low + 1, n - 1, 1}, false, false},
		{"half over", part{low + m/2, m, 1}, part{low, m, 1}, false, false},
		{"meeting in a byte", part{low, m, 1}, part{low + m - 1, m, 1}, false, false},
		{"itself", part{low, n, 1}, part{low, n, 1}, true, false},
		{"halves", part{low, m, 1}, part{low + m, m, 1}, true, true},
		{"halves the other way", part{low + m, m, 1}, part{low, m, 1}, true, false},
		{"halves reversed", part{low + m, m, 1}, part{low + m - 1, m, -1}, true, false},
	}
}

// Two tensors may be the same bytes under different names. A copy between them is one
// by value, or fails with ErrLayout; bytes that are not the same are copied whatever
// the names are.
func TestCopiesBetweenNamesOfOneMemory(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, size := range []int64{64, allPairs, large} {
		if testing.Short() && size == large {
			continue
		}
		devices := openAll(t, 1)
		fresh := func(name string, collect func(*aliases)) {
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				a := &aliases{T: t, devices: devices}
				collect(a)
				a.copyAll()
			})
		}
		fresh("a slice", func(a *aliases) { a.ofHost("slice", make([]byte, size)) })
		for _, d := range devices {
			if size > 64 && d.ID().Index > 0 {
				continue // the first of a kind shows what more bytes change
			}
			for _, s := range sources(d) {
				if s.alloc.Export != 0 {
					fresh(fmt.Sprintf("%v, %s", d.ID(), s.name), func(a *aliases) { a.exported(d, size, s.alloc) })
					continue
				}
				fresh(fmt.Sprintf("%v, %s", d.ID(), s.name), func(a *aliases) {
					whole := a.add("all of it", 0, a.bytesOn(d, size, s.alloc))
					a.everywhere("all of it", 0, whole)
					a.foreign(whole)
					for _, x := range a.all {
						if !x.t.DeviceID().Type.HostAccessible() {
							continue
						}
						values, err := core.Values[byte](x.t)
						if err != nil {
							a.Fatal(err)
						}
						a.ofHost("view", values)
						return
					}
				})
			}
		}
	}
}

// copyAll copies between all pairs, on every device that can.
func (a *aliases) copyAll() {
	a.Helper()
	done := map[bool]int{} // by whether the copy was refused
	queued := false
	for i, x := range a.all {
		for j, y := range a.all {
			if i > 0 && j > 0 && (testing.Short() || a.all[0].t.NumElements() != allPairs) {
				continue
			}
			low := max(x.first, y.first)
			n := min(x.first+x.t.NumElements(), y.first+y.t.NumElements()) - low
			for _, o := range overlaps(low, n) {
				if n > allPairs && !o.large {
					continue
				}
				for _, d := range a.devices {
					if !reaches(d, x.t, y.t) {
						continue
					}
					queued = !queued
					what := fmt.Sprintf("%v copies %s from %q to %q, on a stream: %v", d.ID(), o.name, y.name, x.name, queued)
					refused := a.copy(what, d, x, y, o.dst, o.src, o.works, queued)
					done[refused]++
					if a.Failed() {
						return
					}
				}
			}
		}
	}
	a.Logf("%d names; %d copies went well, %d were refused", len(a.all), done[false], done[true])
}

// reaches reports whether a device copies between two tensors.
func reaches(d core.Device, x, y *core.Tensor) bool {
	own := false
	for _, t := range []*core.Tensor{x, y} {
		switch {
		case t.Device() == d || t.Device() == nil && t.DeviceID() == d.ID():
			own = true
		case !t.DeviceID().Type.HostAccessible():
			return false
		}
	}
	return own || d.ID() == core.CPU
}

// copy copies one part of the memory to another and compares all of it with what a
// copy by value makes of it. It reports whether the copy was refused.
func (a *aliases) copy(what string, d core.Device, dst, src alias, to, from part, works, queued bool) (refused bool) {
	a.Helper()
	whole := a.all[0]
	if a.content == nil {
		a.content = make([]byte, whole.t.NumElements())
		for i := range a.content {
			a.content[i] = byte(i*7 + i>>8)
		}
	}
	before := a.content
	a.write(whole, before)
	want := slices.Clone(before)
	for i := range to.count {
		want[to.first+i*to.step] = before[from.first+i*from.step]
	}
	x, err := to.of(dst)
	if err != nil {
		a.Fatal(err)
	}
	defer x.Close()
	y, err := from.of(src)
	if err != nil {
		a.Fatal(err)
	}
	defer y.Close()
	var s core.Stream
	if queued {
		if s, err = d.NewStream(a.Context()); err != nil {
			a.Fatal(err)
		}
		defer s.Close()
	}
	err = d.Copy(a.Context(), s, x, y)
	if err == nil {
		err = x.WaitReady(a.Context())
	}
	switch {
	case errors.Is(err, core.ErrLayout):
		refused, want = true, before
		if works {
			a.Errorf("%s: refused, although no byte is read and written: %v", what, err)
		}
	case err != nil:
		a.Errorf("%s: %v", what, err)
	}
	if got := a.read(whole); !bytes.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		a.Errorf("%s: byte %d is %d, want %d; %v", what, i, got[i], want[i], err)
	}
	return refused
}

// write fills an alias, and waits.
func (a *aliases) write(x alias, values []byte) {
	a.Helper()
	a.through(x, values, func(d core.Device, v *core.Tensor) error { return d.Copy(a.Context(), nil, x.t, v) })
}

// read returns what an alias holds.
func (a *aliases) read(x alias) []byte {
	a.Helper()
	values := make([]byte, x.t.NumElements())
	a.through(x, values, func(d core.Device, v *core.Tensor) error { return d.Copy(a.Context(), nil, v, x.t) })
	return values
}

// through calls f with the device that copies x and with values as a tensor.
func (a *aliases) through(x alias, values []byte, f func(core.Device, *core.Tensor) error) {
	a.Helper()
	v, err := core.FromSlice(values)
	if err != nil {
		a.Fatal(err)
	}
	defer v.Close()
	d := x.t.Device()
	if d == nil {
		d = a.devices[0]
	}
	if err := f(d, v); err != nil {
		a.Fatal(err)
	}
}
