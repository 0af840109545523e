package tensorfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// target is a device to load onto.
type target struct {
	name string
	open func(testing.TB) core.Device
}

// targets are a device whose memory is the host's, one that the host cannot access, and one whose memory the host can
// view if that was asked for.
var targets = []target{
	{"cpu", openHost},
	{"simulated", func(tb testing.TB) core.Device {
		return coretest.OpenSimulated(tb, coretest.Options{Submit: stream.Submit, Log: tb.Logf})
	}},
	{"opaque", func(tb testing.TB) core.Device {
		return coretest.OpenSimulated(tb, coretest.Options{Submit: stream.Submit, Log: tb.Logf, Opaque: true, HostWaits: true})
	}},
}

// openHost opens the host, and closes it at the end of the test.
func openHost(tb testing.TB) core.Device {
	tb.Helper()
	d, err := cpu.New().Open(tb.Context(), core.CPU)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// load loads a file, and closes the tensors at the end of the test.
func load(tb testing.TB, path string, d core.Device, o tensorfile.LoadOptions) *tensorfile.Loaded {
	tb.Helper()
	l, err := tensorfile.Load(tb.Context(), path, d, o)
	if err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// onHost returns a tensor in host memory with the elements of t.
func onHost(tb testing.TB, d core.Device, t *core.Tensor) *core.Tensor {
	tb.Helper()
	if t.DeviceID().Type.HostAccessible() {
		return t
	}
	size := t.NumBytes()
	data := coretest.Keep(tb)(core.FromSlice(make([]uint8, size+1)))
	b, err := data.Buffer()
	if err != nil {
		tb.Fatal(err)
	}
	host := coretest.Keep(tb)(core.NewTensor(b, core.Spec{DType: t.DType(), Shape: t.Shape()}))
	if size > 0 {
		if err := d.Copy(tb.Context(), nil, host, t); err != nil {
			tb.Fatal(err)
		}
	}
	return host
}

// checkLoaded fails the test unless l has exactly the tensors of the file, as File.Tensor returns them.
func checkLoaded(t *testing.T, path string, d core.Device, l *tensorfile.Loaded) {
	t.Helper()
	f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	count := 0
	for _, info := range f.Tensors() {
		if info.Reason != "" {
			continue
		}
		count++
		got := l.Tensors[info.Name]
		if got == nil {
			t.Errorf("%s: tensor %q is missing", path, info.Name)
			continue
		}
		if got.DeviceID() != d.ID() {
			t.Errorf("%q lies on %v, not on %v", info.Name, got.DeviceID(), d.ID())
		}
		if !slices.Equal(got.Layout().Strides(), info.Strides) {
			t.Errorf("%q has strides %v, want %v", info.Name, got.Layout().Strides(), info.Strides)
		}
		checkEqual(t, onHost(t, d, got), must[*core.Tensor](t)(f.Tensor(info.Name)))
	}
	if len(l.Tensors) != count || len(l.Names) != count || l.Report.Tensors != count {
		t.Errorf("%s: %d tensors, %d names, %d reported; want %d", path, len(l.Tensors), len(l.Names), l.Report.Tensors, count)
	}
}

// mixed writes a file with tensors of all sizes: empty, tiny, of a few pages, and larger than what shares an allocation.
func mixed(t *testing.T, folder string) string {
	t.Helper()
	tensors := []tensorfile.Named{
		{Name: "empty", Tensor: filled(t, core.TypeFloat32, 3, 0)},
		{Name: "scalar", Tensor: filled(t, core.TypeFloat64)},
		{Name: "f4", Tensor: filled(t, core.TypeFloat4E2M1FN, 6)},
		{Name: "bool", Tensor: filled(t, core.TypeBool, 5)},
		{Name: "large", Tensor: filled(t, core.TypeFloat32, 300, 1000)},
		{Name: "huge", Tensor: filled(t, core.TypeInt16, 5, 400, 333)},
		{Name: "half", Tensor: filled(t, core.TypeBFloat16, 97, 211)},
	}
	for i := range 300 {
		tensors = append(tensors, tensorfile.Named{Name: fmt.Sprintf("layers/%d.weight", i), Tensor: filled(t, core.TypeUint8, int64(1000+i))})
	}
	path := filepath.Join(folder, "mixed.safetensors")
	if err := tensorfile.WriteFile(t.Context(), path, tensors, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

var readModes = []tensorfile.ReadMode{"", tensorfile.ReadAuto, tensorfile.ReadMap, tensorfile.ReadDirect}

func TestLoadGivesTheTensorsOfTheFile(t *testing.T) {
	paths := []string{mixed(t, t.TempDir())}
	for _, name := range realFiles {
		paths = append(paths, realPath(name))
	}
	unaligned := filepath.Join(t.TempDir(), "unaligned.safetensors")
	header := withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"F64","shape":[8192],"data_offsets":[1,65537]},"y":{"dtype":"F32","shape":[2],"data_offsets":[65537,65545]}}`, coretest.Pattern(65545, 3)...)
	if err := os.WriteFile(unaligned, header, 0o600); err != nil {
		t.Fatal(err)
	}
	paths = append(paths, unaligned)
	for _, to := range targets {
		for _, mode := range readModes {
			for _, budget := range []int64{0, 128 << 10} {
				t.Run(fmt.Sprintf("%s/%s/%d", to.name, mode, budget), func(t *testing.T) {
					d := to.open(t)
					for _, path := range paths {
						l := load(t, path, d, tensorfile.LoadOptions{Read: mode, Budget: budget, Threads: 3})
						checkLoaded(t, path, d, l)
						if budget > 0 && l.Report.Staged > budget {
							t.Errorf("%s: %d bytes of buffers, and a budget of %d", path, l.Report.Staged, budget)
						}
					}
				})
			}
		}
	}
}

func TestManySmallTensorsShareAllocations(t *testing.T) {
	path := mixed(t, t.TempDir())
	for _, to := range targets {
		d := to.open(t)
		l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect})
		if n := l.Report.Allocated; n > 10 {
			t.Errorf("%s: %d allocations for %d tensors", to.name, n, len(l.Names))
		}
		x := l.Tensors["layers/7.weight"] // the others' end is not its end
		delete(l.Tensors, "layers/7.weight")
		_ = l.Close()
		f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
		checkEqual(t, onHost(t, d, x), must[*core.Tensor](t)(f.Tensor("layers/7.weight")))
		_ = x.Close()
	}
}

func TestLoadedTensorsMayBeWritable(t *testing.T) {
	path, d := mixed(t, t.TempDir()), openHost(t)
	for _, c := range []struct {
		options  tensorfile.LoadOptions
		readOnly bool
	}{
		{tensorfile.LoadOptions{Read: tensorfile.ReadMap}, true},
		{tensorfile.LoadOptions{Read: tensorfile.ReadMap, Writable: true}, false},
		{tensorfile.LoadOptions{Read: tensorfile.ReadDirect}, false},
	} {
		l := load(t, path, d, c.options)
		if got := l.Tensors["large"].ReadOnly(); got != c.readOnly {
			t.Errorf("%+v: read-only is %v", c.options, got)
		}
	}
}

// sliceOf returns part i of n of a tensor of the host along an axis, found index by index.
func sliceOf(t *testing.T, x *core.Tensor, axis int, i, n int64) *core.Tensor {
	t.Helper()
	extent := x.Shape()[axis]
	return must[*core.Tensor](t)(x.Slice(axis, i*extent/n, (i+1)*extent/n, 1))
}

func TestSlicesReadOnlyTheirBytes(t *testing.T) {
	x := filled(t, core.TypeFloat32, 40, 30, 50)
	wide := filled(t, core.TypeFloat32, 6, 60_000)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := tensorfile.WriteFile(t.Context(), path, []tensorfile.Named{{Name: "x", Tensor: x}, {Name: "wide", Tensor: wide}}, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	fortran := realPath("digits_fortran.npy")
	for _, to := range targets {
		d := to.open(t)
		for _, mode := range readModes[2:] {
			for axis := range 3 {
				for i := range int64(3) {
					l := load(t, path, d, tensorfile.LoadOptions{Read: mode, Slices: []tensorfile.Slice{{Name: "x", Axis: axis, Index: i, Count: 3}, {Name: "w*", Axis: min(axis, 1), Index: i, Count: 3}}})
					checkEqual(t, onHost(t, d, l.Tensors["x"]), sliceOf(t, x, axis, i, 3))
					checkEqual(t, onHost(t, d, l.Tensors["wide"]), sliceOf(t, wide, min(axis, 1), i, 3))
					l = load(t, path, d, tensorfile.LoadOptions{Read: mode, Only: []string{"wide"}, Slices: []tensorfile.Slice{{Axis: 1, Index: i, Count: 3}}})
					if want := wide.NumBytes() / 3; l.Report.Read != want || l.Report.Bytes != want {
						t.Errorf("%s, part %d: %d bytes read for %d, want %d", to.name, i, l.Report.Read, l.Report.Bytes, want)
					}
				}
			}
			f := must[*tensorfile.File](t)(tensorfile.Open(fortran, tensorfile.OpenOptions{}))
			whole := must[*core.Tensor](t)(f.Tensor(f.Tensors()[0].Name))
			for axis := range whole.Rank() {
				for _, rowMajor := range []bool{false, true} {
					l := load(t, fortran, d, tensorfile.LoadOptions{Read: mode, RowMajor: rowMajor, Slices: []tensorfile.Slice{{Axis: axis, Index: 1, Count: 4}}})
					got := l.Tensors[l.Names[0]]
					checkEqual(t, onHost(t, d, got), sliceOf(t, whole, axis, 1, 4))
					if got.Layout().IsContiguous() != rowMajor {
						t.Errorf("%s: row-major %v: strides %v", to.name, rowMajor, got.Layout().Strides())
					}
				}
			}
		}
	}
}

func TestElementsAreConverted(t *testing.T) {
	path := mixed(t, t.TempDir())
	f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
	for _, to := range targets {
		d := to.open(t)
		for _, mode := range readModes[2:] {
			for _, dtype := range []core.DType{core.TypeFloat16, core.TypeFloat64} {
				l := load(t, path, d, tensorfile.LoadOptions{Read: mode, DType: dtype, Budget: 1 << 20, Only: []string{"large", "huge", "half", "f4", "bool", "scalar", "empty", "layers/*"}})
				for name, got := range l.Tensors {
					x := must[*core.Tensor](t)(f.Tensor(name))
					checkEqual(t, onHost(t, d, got), coretest.Keep(t)(x.AsType(t.Context(), dtype)))
				}
				if len(l.Tensors) != 307 || l.Report.Allocated > 12 {
					t.Errorf("%s: %d tensors in %d allocations", to.name, len(l.Tensors), l.Report.Allocated)
				}
				// Parts along an inner axis, converted on the way.
				l = load(t, path, d, tensorfile.LoadOptions{Read: mode, DType: dtype, Only: []string{"huge"}, Slices: []tensorfile.Slice{{Axis: 2, Index: 1, Count: 2}}})
				part := sliceOf(t, must[*core.Tensor](t)(f.Tensor("huge")), 2, 1, 2)
				checkEqual(t, onHost(t, d, l.Tensors["huge"]), coretest.Keep(t)(part.AsType(t.Context(), dtype)))
			}
		}
	}
}

func TestProgressReachesTheTotal(t *testing.T) {
	path, d := mixed(t, t.TempDir()), openHost(t)
	for _, mode := range readModes[2:] {
		var last, total int64
		l := load(t, path, d, tensorfile.LoadOptions{Read: mode, Budget: 1 << 20, Progress: func(done, of int64) {
			if done < last || done > of || total != 0 && of != total {
				t.Errorf("%d of %d after %d of %d", done, of, last, total)
			}
			last, total = done, of
		}})
		if last != total || total != l.Report.Bytes || total == 0 {
			t.Errorf("%s: ended at %d of %d, and loaded %d", mode, last, total, l.Report.Bytes)
		}
	}
}

func TestLoadWithACancelledContext(t *testing.T) {
	path := mixed(t, t.TempDir())
	for _, to := range targets {
		for _, mode := range readModes[2:] {
			for after := range 6 {
				d := to.open(t)
				ctx, cancel := context.WithCancel(t.Context())
				calls := 0
				l, err := tensorfile.Load(ctx, path, d, tensorfile.LoadOptions{Read: mode, Budget: 1 << 20, Checksum: tensorfile.SHA256, Writable: true, Progress: func(int64, int64) {
					if calls++; calls > after {
						cancel()
					}
				}})
				cancel()
				if err != context.Canceled {
					t.Errorf("%s: %v", to.name, err)
				}
				if err == nil {
					_ = l.Close()
				}
			}
		}
	}
}

// What the device has allocated besides the tensors is within the budget at all times.
func TestBuffersStayWithinTheBudget(t *testing.T) {
	path := mixed(t, t.TempDir())
	d := targets[2].open(t)
	pool, ok := core.As[core.PoolController](d)
	if !ok {
		t.Fatal("the device does not tell what is allocated")
	}
	for _, dtype := range []core.DType{{}, core.TypeFloat64} {
		for _, budget := range []int64{128 << 10, 300_000, 4 << 20} {
			most := int64(0)
			l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect, Budget: budget, DType: dtype, Progress: func(int64, int64) {
				most = max(most, pool.PoolStats().Requested)
			}})
			left := pool.PoolStats().Requested
			_ = l.Close()
			if used := most - left; used <= 0 || used > budget || l.Report.Staged > budget {
				t.Errorf("%v: %d bytes of buffers, %d reported, and a budget of %d", dtype, used, l.Report.Staged, budget)
			}
		}
	}
}

// checkEqual is checkSame for large tensors: core compares them.
func checkEqual(tb testing.TB, got, want *core.Tensor) {
	tb.Helper()
	if got.DType() != want.DType() || !slices.Equal(got.Shape(), want.Shape()) {
		tb.Errorf("got %v, want %v", got, want)
		return
	}
	if same, err := core.EqualBits(tb.Context(), got, want); err != nil || !same {
		tb.Errorf("%v: elements differ, %v", want, err)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
		err        error
	}{
		{"*", "", true, nil},
		{"?*", "", false, nil},
		{"", "x", false, nil},
		{"*.weight", "layers/0/q.weight", true, nil},
		{"layers?0*", "layers/0/q.weight", true, nil},
		{"layers/[0-3]/*", "layers/4/q", false, nil},
		{`a\*`, "a*", true, nil},
		{"[", "x", false, path.ErrBadPattern},
		{"x[", "y", false, path.ErrBadPattern},
	} {
		if got, err := tensorfile.Match(c.glob, c.name); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q matches %q: %v, %v; want %v, %v", c.glob, c.name, got, err, c.want, c.err)
		}
	}
}
