//go:build linux && cgo

package gpusim_test

import (
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// compileHIP compiles a text and returns the code, or the log if that fails with what is wanted.
func compileHIP(t *testing.T, h *gpusimtest.HIP, text string, want int32) (code []byte, log string) {
	t.Helper()
	var program, size uint64
	name := cText("kernels.hip")
	if r := h.Call("hiprtcCreateProgram", &program, cText(text), name, 0, nil, nil); int32(r) != 0 {
		t.Fatal(r)
	}
	defer h.OK("hiprtcDestroyProgram", &program)
	if r := int32(h.Call("hiprtcCompileProgram", program, 0, nil)); r != want {
		t.Errorf("hiprtcCompileProgram returns %d, want %d", r, want)
	}
	h.OK("hiprtcGetProgramLogSize", program, &size)
	buffer := make([]byte, size)
	h.OK("hiprtcGetProgramLog", program, &buffer[0])
	if want != 0 {
		const invalidProgram gpusimtest.Result = 4
		h.Want(invalidProgram, "hiprtcGetCodeSize", program, &size)
		return nil, cString(buffer)
	}
	h.OK("hiprtcGetCodeSize", program, &size)
	code = make([]byte, size)
	h.OK("hiprtcGetCode", program, &code[0])
	return code, cString(buffer)
}

// launchHIP launches a kernel with arguments of eight bytes.
func launchHIP(h *gpusimtest.HIP, f uint64, blocks, threads int, stream uint64, arguments ...uint64) gpusimtest.Result {
	params := make([]uintptr, len(arguments)+1)
	for i := range arguments {
		params[i] = uintptr(unsafe.Pointer(&arguments[i]))
	}
	defer runtime.KeepAlive(arguments)
	return h.Result("hipModuleLaunchKernel", f, blocks, 1, 1, threads, 1, 1, 0, stream, &params[0], nil)
}

const hipText = `
template <typename T> static __device__ T twice(T v) { return v + v; }
struct Pair { unsigned a, b; };
extern "C" __global__ void __launch_bounds__(64) reverse(unsigned *__restrict__ out, const unsigned *__restrict__ in, Pair p) {
	__shared__ unsigned room[64];
	room[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
	__syncthreads();
	unsigned v = room[blockDim.x - 1 - threadIdx.x];
	__syncthreads();
	room[threadIdx.x] = twice(v) + p.a * p.b;
	__syncthreads();
	out[blockIdx.x * blockDim.x + threadIdx.x] = room[threadIdx.x];
}
extern "C" __global__ void uneven() { if (threadIdx.x > 3) __syncthreads(); }
`

// hiprtc.h, and hip_runtime_api.h: "Module Management", "Execution Control". A launch is work of its stream.
func TestHIPCompilesAndRunsKernels(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	code, _ := compileHIP(t, h, hipText, 0)
	var module, reverse, uneven, none uint64
	h.OK("hipModuleLoadData", &module, &code[0])
	h.OK("hipModuleGetFunction", &reverse, module, cText("reverse"))
	h.OK("hipModuleGetFunction", &uneven, module, cText("uneven"))
	h.Want(gpusimtest.NotFound, "hipModuleGetFunction", &none, module, cText("twice"))
	const n = 4 * 64
	in, out, stream := h.Malloc(4*n), h.Malloc(4*n), h.Stream(1)
	data := make([]byte, 0, 4*n)
	for i := range uint32(n) {
		data = binary.NativeEndian.AppendUint32(data, i)
	}
	h.Write(in, data)
	hold(t, h.Driver)
	if r := launchHIP(h, reverse, n/64, 64, stream, out, in, 3|5<<32); r != gpusimtest.Success {
		t.Fatal(h.Name(r))
	}
	h.Want(gpusimtest.NotReady, "hipStreamQuery", stream)
	h.OK("hipStreamSynchronize", stream)
	got := h.Read(out, 4*n)
	for i := range n {
		if v, want := binary.NativeEndian.Uint32(got[4*i:]), uint32(2*(i/64*64+63-i%64)+15); v != want {
			t.Fatalf("word %d is %d, want %d", i, v, want)
		}
	}
	const badConfiguration, badImage gpusimtest.Result = 9, 200
	for _, c := range []struct {
		blocks, threads int
		want            gpusimtest.Result
	}{{0, 64, gpusimtest.InvalidValue}, {1, 0, badConfiguration}, {1, 1025, gpusimtest.InvalidValue}, {1 << 30, 64, gpusimtest.InvalidValue}} {
		if r := launchHIP(h, reverse, c.blocks, c.threads, stream, out, in, 0); r != c.want {
			t.Errorf("%d blocks of %d threads: %s", c.blocks, c.threads, h.Name(r))
		}
	}
	h.Want(badImage, "hipModuleLaunchKernel", nil, 1, 1, 1, 1, 1, 1, 0, stream, nil, nil)

	h.OK("hipSetDevice", 1)
	far := h.Stream(1)
	if r := launchHIP(h, uneven, 1, 1, far); r != gpusimtest.InvalidDevice {
		t.Errorf("a kernel of another device: %s", h.Name(r))
	}
	h.OK("hipSetDevice", 0)
	h.OK("hipModuleUnload", module)
	h.WantMisuse(gpusimtest.InvalidHandle, "hipModuleUnload", module)
}

// What a kernel does wrong ends the device's work with an error. (AMD's runtime ends the process where a kernel uses
// memory that is not there, unless it was told otherwise.)
func TestHIPKernelsThatFail(t *testing.T) {
	const launchFailed gpusimtest.Result = 719
	h := gpusimtest.StartHIP(t)
	code, _ := compileHIP(t, h, hipText, 0)
	for _, c := range []struct {
		name    string
		threads int
		want    gpusimtest.Result
	}{{"reverse", 65, gpusimtest.IllegalAddress}, {"uneven", 8, launchFailed}} {
		var module, f, in, out uint64
		h.OK("hipModuleLoadData", &module, &code[0])
		h.OK("hipModuleGetFunction", &f, module, cText(c.name))
		h.OK("hipMalloc", &in, 4*65)
		h.OK("hipMalloc", &out, 4*64) // a word less than 65 threads write
		args := []uint64{out, in, 0}
		if c.name == "uneven" {
			args = nil
		}
		if r := launchHIP(h, f, 1, c.threads, 0, args...); r != gpusimtest.Success {
			t.Fatal(h.Name(r))
		}
		h.WantMisuse(c.want, "hipDeviceSynchronize")
		h.Want(c.want, "hipModuleUnload", module) // it unloads nevertheless
		h.OK("hipDeviceReset")                    // which frees the memory
	}
}

// HIPRTC_ERROR_COMPILATION is 6, HIPRTC_ERROR_INVALID_OPTION 5, and the log names the file and the line.
func TestHIPTextsThatDoNotCompile(t *testing.T) {
	h := gpusimtest.StartHIP(t)
	for _, text := range []string{"extern \"C\" __global__ void f() {}\nint x = ;", "\n#error not this one"} {
		if _, log := compileHIP(t, h, text, 6); !strings.Contains(log, "kernels.hip:2:") {
			t.Errorf("the log is %q", log)
		}
	}
	var program uint64
	h.OK("hiprtcCreateProgram", &program, cText(""), nil, 0, nil, nil)
	option := cText("--no-such-option")
	options := []uintptr{uintptr(unsafe.Pointer(option))}
	defer runtime.KeepAlive(option)
	const badOption, badProgram, badInput gpusimtest.Result = 5, 4, 3
	h.Want(badOption, "hiprtcCompileProgram", program, 1, &options[0])
	h.Want(badInput, "hiprtcCreateProgram", nil, cText(""), nil, 0, nil, nil)
	stale := program
	h.OK("hiprtcDestroyProgram", &program)
	h.WantMisuse(badProgram, "hiprtcCompileProgram", stale, 0, nil)
	var major, minor int32
	h.OK("hiprtcVersion", &major, &minor)
	if got := h.Text("hiprtcGetErrorString", 6); got != "HIPRTC_ERROR_COMPILATION" {
		t.Errorf("6 is %q", got)
	}
}

// amdgcn is the header of a code object: EM_AMDGPU (224), and the processor and its features in e_flags ("User Guide for AMDGPU
// Backend", ELF Code Object).
func amdgcn(machine uint16, flags uint32) []byte {
	h := make([]byte, 64)
	copy(h, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(h[18:], machine)
	binary.LittleEndian.PutUint32(h[48:], flags)
	return h
}

// Code for another processor, or for another setting of a feature, is hipErrorNoBinaryForGpu (209); what is no code object is
// hipErrorInvalidImage (200). Machine code that fits is not run: the host's build of the kernels of dlx is.
func TestHIPCodeObjects(t *testing.T) {
	const gfx90a, gfx908, anyXNACK, noXNACK, withXNACK, amd = 0x3f, 0x30, 1 << 8, 2 << 8, 3 << 8, 224
	const noBinary, badImage gpusimtest.Result = 209, 200
	h := gpusimtest.StartHIP(t)
	for _, c := range []struct {
		name  string
		image []byte
		want  gpusimtest.Result
	}{
		{"any XNACK", amdgcn(amd, gfx90a|anyXNACK), 0},
		{"no XNACK", amdgcn(amd, gfx90a|noXNACK), 0},
		{"XNACK", amdgcn(amd, gfx90a|withXNACK), noBinary},
		{"another processor", amdgcn(amd, gfx908), noBinary},
		{"another machine", amdgcn(8, 0), badImage},
		{"no ELF file", append([]byte("__CLANG"), make([]byte, 64)...), badImage},
	} {
		var module, f uint64
		if r := h.Result("hipModuleLoadData", &module, &c.image[0]); r != c.want {
			t.Errorf("%s: %s, want %s", c.name, h.Name(r), h.Name(c.want))
		} else if r == gpusimtest.Success {
			h.OK("hipModuleGetFunction", &f, module, cText("gather4_tiled"))
			h.OK("hipModuleUnload", module)
		}
	}
	h.Want(gpusimtest.InvalidValue, "hipModuleLoadData", nil, nil)
	if os.Getenv("DLX_GPUSIM_CHILD") == "" {
		runsGather(t, h, amdgcn(amd, gfx90a))
	}
	if os.Getenv("DLX_GPUSIM_CHILD") == "" {
		if out, err := child(t, "gfx908", "DLX_GPUSIM_HIP_ARCH=gfx908:sramecc+:xnack-").CombinedOutput(); err == nil {
			t.Errorf("a device of another architecture takes the code:\n%s", out)
		}
	}
}

// runsGather transposes bytes by a kernel of a code object. The arguments are given in one piece ("extra").
func runsGather(t *testing.T, h *gpusimtest.HIP, image []byte) {
	t.Helper()
	const n = 70 // not whole tiles
	type constants struct {
		dstFirst, srcFirst         int32
		planes, wide, along, whole uint32
		extent                     [8]uint32
		dstStep, srcStep           [8]int32
	}
	type arguments struct {
		dst, src uint64
		c        constants
	}
	var module, f uint64
	h.OK("hipModuleLoadData", &module, &image[0])
	h.OK("hipModuleGetFunction", &f, module, cText("gather1_tiled"))
	data := gpusimtest.Pattern(3, n*n)
	a := &arguments{dst: h.Malloc(n * n), src: h.Malloc(n * n), c: constants{
		planes: 1, wide: 5, extent: [8]uint32{n, n, 1, 1, 1, 1, 1, 1}, dstStep: [8]int32{1, n}, srcStep: [8]int32{n, 1},
	}}
	h.Write(a.src, data)
	size := unsafe.Sizeof(*a)
	const pointer, bytes, end = 1, 2, 3 // HIP_LAUNCH_PARAM_BUFFER_POINTER and so on
	extra := [5]uintptr{pointer, uintptr(unsafe.Pointer(a)), bytes, uintptr(unsafe.Pointer(&size)), end}
	h.OK("hipModuleLaunchKernel", f, 1, 1, 1, 256, 1, 1, 0, nil, nil, &extra[0])
	size = 8
	h.Want(gpusimtest.InvalidValue, "hipModuleLaunchKernel", f, 1, 1, 1, 256, 1, 1, 0, nil, nil, &extra[0])
	runtime.KeepAlive(a)
	h.OK("hipDeviceSynchronize")
	for i, b := range h.Read(a.dst, n*n) {
		if want := data[i%n*n+i/n]; b != want {
			t.Fatalf("byte %d is %d, want %d", i, b, want)
		}
	}
	h.OK("hipModuleUnload", module)
}
