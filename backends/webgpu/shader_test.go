//go:build webgpu && linux && cgo

package webgpu

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
)

// shaders carries out dispatches on a device, with buffers in place of the memory of the host.
type shaders struct {
	*device
	host    [2][]byte
	buffers [2]*buffer
}

func (s *shaders) Room(t testing.TB, dst, src int) (to, from []byte) {
	t.Helper()
	s.free()
	for i, n := range []int{dst, src} {
		s.host[i] = make([]byte, n)
		var err error
		if s.buffers[i], err = s.newBuffer("Room", wgpu.Memory, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	return s.host[0], s.host[1]
}

func (s *shaders) free() {
	for i, b := range s.buffers {
		if b != nil {
			release(b.handle)
		}
		s.buffers[i] = nil
	}
}

func (s *shaders) Run(t testing.TB, plan []gpucopy.Dispatch) {
	t.Helper()
	for i, b := range s.buffers {
		if err := s.write(b, uintptr(unsafe.Pointer(&s.host[i][0])), copyplan.Copy{Elem: int64(len(s.host[i]))}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.launches(s.buffers[0], s.buffers[1], slices.Values(plan))
	if err == nil && len(list) > 0 {
		r := recording{device: s.device}
		defer r.giveBack()
		if err = r.launch(list); err == nil {
			err = wait(r.submit())
		}
	}
	if err != nil {
		t.Fatalf("%+v: %v", plan, err)
	}
	whole := copyplan.Copy{Elem: int64(len(s.host[0]))}
	err = s.read(s.buffers[0], picked(whole, copyplan.Source, s.buffers[0].size), func(host uintptr, pick copyplan.Copy) error {
		return runCopy(uintptr(unsafe.Pointer(&s.host[0][0])), host, pick)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every byte is what the naive copy gives, with each shader, over limits that no device has.
func TestShadersMoveTheSameElements(t *testing.T) {
	d := open(t)
	defer closeDevice(t, d)
	s := &shaders{device: d.(*device)}
	defer s.free()
	for name, l := range gpucopytest.Variants(s.limits) {
		t.Run(name, func(t *testing.T) {
			if l.Tiles { // all cases, since no other driver runs these texts
				gpucopytest.CheckEvery(t, s, l, 1, 10)
			} else {
				gpucopytest.CheckCases(t, s, l, 10)
			}
		})
	}
}

// BenchmarkTiles copies without and with tiles in workgroup memory, by turns. The metric ratio is the time without by the time with.
func BenchmarkTiles(b *testing.B) {
	for _, c := range []struct {
		name  string
		dtype core.DType
		src   []int64 // the shape of the source, of which axes makes that of the destination
		axes  []int
	}{
		{"transpose", core.TypeFloat32, []int64{1024, 1024}, []int{1, 0}},
		{"transpose", core.TypeFloat64, []int64{1024, 1024}, []int{1, 0}},
		{"transpose", core.TypeUint8, []int64{1024, 1024}, []int{1, 0}},
		{"channels-first", core.TypeUint8, []int64{8, 224 * 224, 3}, []int{0, 2, 1}},
		{"channels-first", core.TypeFloat32, []int64{8, 224 * 224, 3}, []int{0, 2, 1}},
		{"channels-last", core.TypeUint8, []int64{8, 3, 224 * 224}, []int{0, 2, 1}},
		{"channels-last", core.TypeFloat32, []int64{8, 3, 224 * 224}, []int{0, 2, 1}},
	} {
		b.Run(fmt.Sprintf("%s/%v", c.name, c.dtype), func(b *testing.B) {
			opened := open(b)
			defer closeDevice(b, opened)
			d := opened.(*device)
			d.picks = false
			tensor := func(shape ...int64) *core.Tensor {
				t, err := core.Empty(b.Context(), d, c.dtype, shape, core.AllocOptions{})
				if err != nil {
					b.Fatal(err)
				}
				return t
			}
			whole := tensor(c.src...)
			defer whole.Close()
			src, err := whole.Permute(c.axes...)
			if err != nil {
				b.Fatal(err)
			}
			defer src.Close()
			dst := tensor(src.Shape()...)
			defer dst.Close()
			var took [2]time.Duration
			byTurns := func() {
				for i, tiles := range []bool{false, true} {
					d.limits.Tiles = tiles
					begin := time.Now()
					if err := d.Copy(b.Context(), nil, dst, src); err != nil {
						b.Fatal(err)
					}
					took[i] += time.Since(begin)
				}
			}
			byTurns() // which compiles the shaders
			clear(took[:])
			b.SetBytes(2 * dst.NumBytes()) // both ways
			for b.Loop() {
				byTurns()
			}
			b.ReportMetric(float64(took[0])/float64(took[1]), "ratio")
		})
	}
}
