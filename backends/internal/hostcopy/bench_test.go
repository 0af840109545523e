package hostcopy

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
)

var benchTypes = []struct {
	name string
	elem int64
}{{"uint8", 1}, {"int16", 2}, {"float32", 4}, {"float64", 8}, {"complex128", 16}}

// benchmark times one copy per element type and for one and two workers.
// Strides are in elements; the source starts first elements in. Bytes per
// second count each byte copied once.
func benchmark(b *testing.B, size string, shape, dst, src []int64, first int64) {
	for _, ty := range benchTypes {
		b.Run(ty.name+"/"+size, func(b *testing.B) {
			l := newLayout(shape, src)
			bytes := elements(shape) * ty.elem
			to := make([]byte, bytes)
			from := make([]byte, (first+l.last+1)*ty.elem)
			c := geometry(b, ty.elem, shape, scaled(dst, ty.elem), scaled(src, ty.elem))
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
					b.SetBytes(bytes)
					for b.Loop() {
						if err := Copy(unsafe.Pointer(&to[0]), unsafe.Pointer(&from[first*ty.elem]), c, workers); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

func BenchmarkTranspose(b *testing.B) {
	benchmark(b, "4096", []int64{4096, 4096}, []int64{4096, 1}, []int64{1, 4096}, 0)
}

func BenchmarkNHWCtoNCHW(b *testing.B) {
	const hw = 224 * 224
	benchmark(b, "32x224x224x3", []int64{32, 3, hw}, []int64{3 * hw, hw, 1}, []int64{3 * hw, 1, 3}, 0)
}

func BenchmarkNCHWtoNHWC(b *testing.B) {
	const hw = 224 * 224
	benchmark(b, "32x3x224x224", []int64{32, hw, 3}, []int64{3 * hw, 3, 1}, []int64{3 * hw, 1, hw}, 0)
}

func BenchmarkHWCtoCHW(b *testing.B) {
	const hw = 1 << 20
	benchmark(b, "1024x1024x4", []int64{4, hw}, []int64{hw, 1}, []int64{1, 4}, 0)
}

func BenchmarkEverySecondColumn(b *testing.B) {
	benchmark(b, "4096", []int64{4096, 2048}, []int64{2048, 1}, []int64{4096, 2}, 0)
}

func BenchmarkReversedRows(b *testing.B) {
	benchmark(b, "4096", []int64{4096, 4096}, []int64{4096, 1}, []int64{-4096, 1}, 4095*4096)
}

func BenchmarkReversedColumns(b *testing.B) {
	benchmark(b, "4096", []int64{4096, 4096}, []int64{4096, 1}, []int64{4096, -1}, 4095)
}

func BenchmarkPermute201(b *testing.B) {
	benchmark(b, "256x256x128", []int64{128, 256, 256}, []int64{65536, 256, 1}, []int64{1, 32768, 128}, 0)
}

func BenchmarkBroadcastColumn(b *testing.B) {
	benchmark(b, "4096", []int64{4096, 4096}, []int64{4096, 1}, []int64{1, 0}, 0)
}

func BenchmarkContiguous(b *testing.B) {
	for _, mib := range []int64{1, 8, 64, 256} {
		n := mib << 20
		dst, src := make([]byte, n), make([]byte, n)
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dMiB/workers=%d", mib, workers), func(b *testing.B) {
				b.SetBytes(n)
				for b.Loop() {
					if err := Contiguous(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n, workers); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSmall shows what planning costs where there is little to copy.
func BenchmarkSmall(b *testing.B) {
	for _, n := range []int64{1, 4, 8, 16, 32} {
		b.Run(fmt.Sprintf("transpose/float32/%d", n), func(b *testing.B) {
			dst, src := make([]byte, 4*n*n), make([]byte, 4*n*n)
			b.SetBytes(4 * n * n)
			b.ReportAllocs()
			to, from := rowAndColumnMajor(b, n)
			for b.Loop() {
				if err := Copy(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), copyplan.New(4, to, from), 2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// rowAndColumnMajor are the layouts of a transpose of n by n elements.
func rowAndColumnMajor(t testing.TB, n int64) (dst, src core.Layout) {
	t.Helper()
	dst, err := core.NewLayout(n, n)
	if err != nil {
		t.Fatal(err)
	}
	src, err = dst.Permute(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return dst, src
}

func BenchmarkCopyBits(b *testing.B) {
	const n = 4096
	dst, src := make([]byte, n*n/2), make([]byte, n*n/2)
	for _, c := range []struct {
		name               string
		shape, to, from    []int64
		dstIndex, srcIndex int64
	}{
		{"shifted", []int64{n*n - 8}, []int64{1}, []int64{1}, 0, 1},
		{"transpose", []int64{n, n}, []int64{n, 1}, []int64{1, n}, 0, 0},
	} {
		b.Run("int4/"+c.name, func(b *testing.B) {
			b.SetBytes(elements(c.shape) / 2)
			for b.Loop() {
				if err := CopyBits(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), bitGeometry(b, 4, c.shape, c.to, c.from, c.dstIndex, c.srcIndex), 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
