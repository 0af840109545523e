//go:build cuda && linux && cgo

package gpuconvert_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim/ptx"
)

// The PTX is what the source compiles to.
func TestPTXIsMadeOfItsSource(t *testing.T) {
	coretest.SkipQuick(t, "make test-go compares the committed code with its source")
	if _, err := os.Stat(filepath.Join(os.Getenv("DLX_CUDA_TOOLS"), "cuda_nvrtc", "lib", "libnvrtc.so.12")); err != nil {
		coretest.NeedDriver(t, err.Error(), "requirements.txt and let DLX_CUDA_TOOLS be its folder nvidia, as make does")
	}
	folder := t.TempDir()
	source, out := filepath.Join(folder, "convert.cu"), filepath.Join(folder, "convert.ptx.gz")
	if err := os.WriteFile(source, []byte(gpuconvert.CUDA()), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.CommandContext(t.Context(), "go", "run", "../gpucopy/generate_ptx.go", source, out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	packed, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	made, err := io.ReadAll(r) // compressed bytes may differ between versions of Go
	if err != nil {
		t.Fatal(err)
	}
	compiler := func(text string) string {
		header, _, _ := strings.Cut(text, ".version")
		return header
	}
	if compiler(string(made)) != compiler(gpuconvert.PTX()) {
		t.Logf("the text was not compared: another NVRTC made it, %s", compiler(string(made)))
	} else if string(made) != gpuconvert.PTX() {
		t.Error("convert.ptx.gz is not what its source compiles to: run go generate")
	}
}

// The kernel has the bits of the host, and touches no memory but the tensors'.
func TestPTX(t *testing.T) {
	m, err := ptx.Load(gpuconvert.PTX())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	kernel, err := m.Function("convert")
	if err != nil {
		t.Fatal(err)
	}
	sources := []core.DType{core.TypeUint8, core.TypeInt8, core.TypeUint16, core.TypeInt16}
	destinations := append([]core.DType{core.TypeFloat32, core.TypeFloat16, core.TypeBFloat16}, sources...)
	scalings := []core.Scaling{
		{},
		{Scale: []float32{1.0 / 255 / 0.229, -3.7, 0x1p-20}, Offset: []float32{-0.485 / 0.229, 1000.3, 0}, Axis: 1},
		{Scale: []float32{1e6}},
	}
	for _, to := range destinations {
		for _, from := range sources {
			for n, s := range scalings {
				if gpuconvert.Supports("test", to, from, s) != nil {
					continue
				}
				t.Run(fmt.Sprintf("%v from %v, scaling %d", to, from, n), func(t *testing.T) { convertByPTX(t, kernel, to, from, s) })
			}
		}
	}
}

// convertByPTX converts a matrix of three columns from one whose columns are rows in memory.
func convertByPTX(t *testing.T, kernel ptx.Function, to, from core.DType, s core.Scaling) {
	t.Helper()
	const rows, columns = 301, 3
	const atDst, atSrc = 1 << 20, 1 << 24
	keep := coretest.Keep(t)
	input := coretest.Pattern(rows*columns*int(from.Bits)/8, 5)
	tensor := func(b []byte, d core.DType, strides []int64) *core.Tensor {
		raw, err := keep(core.FromSlice(b)).Buffer()
		if err != nil {
			t.Fatal(err)
		}
		return keep(core.NewTensor(raw, core.Spec{DType: d, Shape: []int64{rows, columns}, Strides: strides}))
	}
	want, got := make([]byte, rows*columns*int(to.Bits)/8), make([]byte, rows*columns*int(to.Bits)/8)
	src, dst := tensor(input, from, []int64{1, rows}), tensor(got, to, nil)
	if err := core.ConvertScaled(t.Context(), tensor(want, to, nil), src, s); err != nil {
		t.Fatal(err)
	}
	memory := []ptx.Memory{{Address: atDst, Bytes: got}, {Address: atSrc, Bytes: input, ReadOnly: true}}
	bytesOf := func(address uint64) []byte {
		return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&address)), unsafe.Sizeof(address)))
	}
	for d := range gpuconvert.Plan(dst, src, s, gpuconvert.Limits{Range: 1 << 30, Alignment: 8, Groups: 2}) {
		constants := bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&d.Constants)), unsafe.Sizeof(d.Constants)))
		err := kernel.Run([3]uint32{d.Groups, 1, 1}, [3]uint32{gpuconvert.GroupSize, 1, 1}, memory,
			bytesOf(atDst+uint64(d.Dst.Offset)), bytesOf(atSrc+uint64(d.Src.Offset)), constants)
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("the bits are not those of the host")
	}
}
