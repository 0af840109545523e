package benchmarks

import (
	"runtime"
	"strings"
	"sync"

	"github.com/dlx-go/dlx/benchmarks/internal/foreign"
	"github.com/dlx-go/dlx/core"
)

// rotated is how many bytes a cold copy reads in turn, and how many it writes: several times what caches hold.
const rotated = 256 << 20

// contiguousCases copy bytes in a row: for the first time the same bytes again and again, which a cache holds if it
// can, for the second time others each time.
func contiguousCases() []Case {
	var cases []Case
	for size := int64(4 << 10); size <= 1<<30; size *= 2 {
		cases = append(cases, Case{
			Name:        "copy/contiguous/" + binarySize(size),
			Description: "Device.Copy of bytes in a row, on the same memory as memcpy",
			Target:      Target{Measure: Speed, Limit: 1, Baseline: "best"},
			setup:       func(e *env) (trial, error) { return contiguous(e, e.bytes(size), 1) },
		})
	}
	for size := int64(4 << 10); size <= rotated/4; size *= 2 {
		cases = append(cases, Case{
			Name:        "copy/contiguous-cold/" + binarySize(size),
			Description: "Device.Copy of bytes in a row that are in no cache, on the same memory as memcpy",
			Target:      Target{Measure: Speed, Limit: 1, Baseline: "best"},
			setup: func(e *env) (trial, error) {
				size := e.bytes(size)
				return contiguous(e, size, int(e.bytes(rotated)/size))
			},
		})
	}
	return cases
}

// contiguous copies size bytes, of places many in turn.
func contiguous(e *env, size int64, places int) (trial, error) {
	d, err := e.device()
	if err != nil {
		return trial{}, err
	}
	var whole [2]*core.Tensor
	var rows [2][]*core.Tensor
	var bytes [2][]byte
	for i := range rows {
		all, err := e.tensor(d, core.TypeUint8, int64(places)*size)
		if err != nil {
			return trial{}, err
		}
		whole[i] = all
		if bytes[i], err = core.Mutable[uint8](all); err != nil {
			return trial{}, err
		}
		for place := range int64(places) {
			row, err := e.keep(all.Slice(0, place*size, (place+1)*size, 1))
			if err != nil {
				return trial{}, err
			}
			rows[i] = append(rows[i], row)
		}
	}
	// All series go on from where the one before them stopped, or they would find its bytes in the cache.
	next := 0
	place := func() int {
		p := next
		if next++; next == places {
			next = 0
		}
		return p
	}
	copyNext := func() error {
		p := place()
		return d.Copy(e.ctx, nil, rows[0][p], rows[1][p])
	}
	t := trial{bytes: size, own: repeat(copyNext), verify: func() (*Mismatch, error) {
		if err := e.write(arrivedAt(d, whole[0]), beforeSeed); err != nil {
			return nil, err
		}
		for range places {
			if err := copyNext(); err != nil {
				return nil, err
			}
		}
		return e.check(arrivedAt(d, whole[0]), sentSeed, beforeSeed)
	}}
	most := runtime.GOMAXPROCS(0)
	for threads := 1; threads <= min(most, 2); threads++ {
		t.baselines = append(t.baselines, baseline{
			name: foreign.MemcpyName + []string{"", ", 1 thread", ", 2 threads"}[threads],
			sample: repeat(func() error {
				p := int64(place())
				memcpy(bytes[0][p*size:(p+1)*size], bytes[1][p*size:(p+1)*size], threads)
				return nil
			}),
		})
	}
	rowsOf := request{Prepare: "copy_rows", Size: size, Places: places, Threads: most}
	t.baselines = append(t.baselines, e.pythonBaseline("np.copyto", "numpy", rowsOf), e.pythonBaseline("torch copy_", "torch", rowsOf))
	return t, nil
}

// memcpy divides the bytes among threads.
func memcpy(dst, src []byte, threads int) {
	var others sync.WaitGroup
	for ; threads > 1; threads-- {
		part := len(dst) / threads &^ 63 // cache lines are not shared
		d, s := dst[:part], src[:part]
		dst, src = dst[part:], src[part:]
		others.Go(func() { foreign.Memcpy(d, s) })
	}
	foreign.Memcpy(dst, src)
	others.Wait()
}

// view is a strided view of a row-major tensor.
type view struct {
	name, description string
	shape             []int64 // of the row-major tensor
	of                func(*core.Tensor) (*core.Tensor, error)
	dtypes            []core.DType
	onDevices         bool // measured on devices too
}

// elementSizes has a type for each size of a number.
var elementSizes = []core.DType{core.TypeUint8, core.TypeInt16, core.TypeFloat32, core.TypeFloat64, core.TypeComplex128}

var views = []view{{
	name: "transpose", description: "the transpose of 4096x4096",
	shape:  []int64{4096, 4096},
	of:     (*core.Tensor).Transpose,
	dtypes: elementSizes, onDevices: true,
}, {
	name: "nhwc-nchw", description: "images 32x224x224x3, channels first",
	shape:  []int64{32, 224, 224, 3},
	of:     func(t *core.Tensor) (*core.Tensor, error) { return t.Permute(0, 3, 1, 2) },
	dtypes: elementSizes, onDevices: true,
}, {
	name: "second-column", description: "every second column of 4096x4096",
	shape:  []int64{4096, 4096},
	of:     func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(1, 0, t.Layout().Dim(1), 2) },
	dtypes: elementSizes, onDevices: true,
}, {
	name: "reversed-rows", description: "4096x4096, the last row first",
	shape:  []int64{4096, 4096},
	of:     func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(0, t.Layout().Dim(0)-1, -1, -1) },
	dtypes: []core.DType{core.TypeFloat32},
}, {
	name: "reversed-columns", description: "4096x4096, the last column first",
	shape:  []int64{4096, 4096},
	of:     func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(1, t.Layout().Dim(1)-1, -1, -1) },
	dtypes: []core.DType{core.TypeFloat32},
}, {
	name: "permute-201", description: "256x256x128 with the last axis first",
	shape:  []int64{256, 256, 128},
	of:     func(t *core.Tensor) (*core.Tensor, error) { return t.Permute(2, 0, 1) },
	dtypes: []core.DType{core.TypeFloat32},
}}

// stridedCases copy a strided view into a row-major tensor, beside NumPy's copyto
// on an array of the same shape and strides.
func stridedCases() []Case {
	var cases []Case
	for _, v := range views {
		for _, dtype := range v.dtypes {
			cases = append(cases, Case{
				Name:        strings.Join([]string{"copy", v.name, dtype.String()}, "/"),
				Description: "Device.Copy into a row: " + v.description,
				Target:      Target{Measure: Speed, Limit: 1, Baseline: "np.copyto"},
				setup:       func(e *env) (trial, error) { return strided(e, v, dtype) },
			})
		}
	}
	return cases
}

func strided(e *env, v view, dtype core.DType) (trial, error) {
	d, err := e.device()
	if err != nil {
		return trial{}, err
	}
	base, err := e.tensor(d, dtype, e.shape(v.shape)...)
	if err != nil {
		return trial{}, err
	}
	src, err := e.keep(v.of(base))
	if err != nil {
		return trial{}, err
	}
	dst, err := e.tensor(d, dtype, src.Shape()...)
	if err != nil {
		return trial{}, err
	}
	own := func() error { return d.Copy(e.ctx, nil, dst, src) }
	return trial{
		bytes:  src.NumBytes(),
		own:    repeat(own),
		verify: e.verifyStrided(d, dst, base, src, own),
		baselines: []baseline{e.numpyBaseline("np.copyto", request{
			Prepare: "copyto",
			DType:   dtype,
			Size:    base.NumElements(),
			Shape:   src.Shape(),
			Strides: src.Layout().Strides(),
			Offset:  src.Offset() - base.Offset(),
		})},
	}, nil
}
