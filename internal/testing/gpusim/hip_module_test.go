//go:build linux && cgo

package gpusim_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// compileHIP compiles a text and returns the code, or the log if that fails with what is wanted.
func compileHIP(t *testing.T, h *gpusimtest.HIP, text string, want result) (code, log []byte) {
	t.Helper()
	const invalidProgram result = 4
	program := h.New("hiprtcCreateProgram", cText(text), cText("kernels.hip"), 0, nil, nil)
	defer h.OK("hiprtcDestroyProgram", &program)
	equal(t, "hiprtcCompileProgram", h.Result("hiprtcCompileProgram", program, 0, nil), want)
	var size uint64
	h.OK("hiprtcGetProgramLogSize", program, &size)
	log = make([]byte, size)
	h.OK("hiprtcGetProgramLog", program, &log[0])
	if want != gpusimtest.Success {
		h.Want(invalidProgram, "hiprtcGetCodeSize", program, &size)
		return nil, log
	}
	h.OK("hiprtcGetCodeSize", program, &size)
	code = make([]byte, size)
	h.OK("hiprtcGetCode", program, &code[0])
	return code, log
}

// functionHIP loads code and finds a kernel.
func functionHIP(h *gpusimtest.HIP, code []byte, name string) (module, function uint64) {
	module = h.New("hipModuleLoadData", &code[0])
	return module, h.New("hipModuleGetFunction", module, cText(name))
}

// launchHIP launches a kernel with arguments of eight bytes.
func launchHIP(h *gpusimtest.HIP, f uint64, blocks, threads int, stream uint64, arguments ...uint64) result {
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
	const n, badConfiguration, badImage = 4 * 64, 9, 200
	h := gpusimtest.StartHIP(t)
	code, _ := compileHIP(t, h, hipText, 0)
	module, reverse := functionHIP(h, code, "reverse")
	uneven := h.New("hipModuleGetFunction", module, cText("uneven"))
	h.Want(gpusimtest.NotFound, "hipModuleGetFunction", new(uint64), module, cText("twice"))
	in, out, stream := h.Malloc(4*n), h.Malloc(4*n), h.Stream(1)
	var data, want []byte
	for i := range uint32(n) {
		data = binary.NativeEndian.AppendUint32(data, i)
		want = binary.NativeEndian.AppendUint32(want, 2*(i/64*64+63-i%64)+3*5)
	}
	h.Write(in, data)
	h.Hold()
	equal(t, "the launch", launchHIP(h, reverse, n/64, 64, stream, out, in, 3|5<<32), gpusimtest.Success)
	h.Want(gpusimtest.NotReady, "hipStreamQuery", stream)
	h.OK("hipStreamSynchronize", stream)
	h.Holds(out, want)
	for _, c := range []struct {
		blocks, threads int
		want            result
	}{{0, 64, gpusimtest.InvalidValue}, {1, 0, badConfiguration}, {1, 1025, gpusimtest.InvalidValue}, {1 << 30, 64, gpusimtest.InvalidValue}} {
		equal(t, fmt.Sprintf("%d blocks of %d threads", c.blocks, c.threads), launchHIP(h, reverse, c.blocks, c.threads, stream, out, in, 0), c.want)
	}
	h.Want(badImage, "hipModuleLaunchKernel", nil, 1, 1, 1, 1, 1, 1, 0, stream, nil, nil)
	h.OK("hipSetDevice", 1)
	equal(t, "a kernel of another device", launchHIP(h, uneven, 1, 1, h.Stream(1)), gpusimtest.InvalidDevice)
	h.OK("hipSetDevice", 0)
	h.OK("hipModuleUnload", module)
	h.WantMisuse(gpusimtest.InvalidHandle, "hipModuleUnload", module)
}

// What a kernel does wrong ends the device's work with an error. (AMD's runtime ends the process where a kernel uses
// memory that is not there, unless it was told otherwise.)
func TestHIPKernelsThatFail(t *testing.T) {
	const launchFailed result = 719
	h := gpusimtest.StartHIP(t)
	code, _ := compileHIP(t, h, hipText, 0)
	in, out := h.New("hipMalloc", 4*65), h.New("hipMalloc", 4*64) // a word less than 65 threads write
	for _, c := range []struct {
		name    string
		threads int
		args    []uint64
		want    result
	}{{"reverse", 65, []uint64{out, in, 0}, gpusimtest.IllegalAddress}, {"uneven", 8, nil, launchFailed}} {
		module, f := functionHIP(h, code, c.name)
		equal(t, "the launch", launchHIP(h, f, 1, c.threads, 0, c.args...), gpusimtest.Success)
		h.WantMisuse(c.want, "hipDeviceSynchronize")
		h.Want(c.want, "hipModuleUnload", module) // it unloads nevertheless
		h.OK("hipDeviceReset")                    // which frees the memory
	}
}

// HIPRTC_ERROR_COMPILATION is 6, HIPRTC_ERROR_INVALID_OPTION 5, and the log names the file and the line.
func TestHIPTextsThatDoNotCompile(t *testing.T) {
	const badOption, badProgram, badInput result = 5, 4, 3
	h := gpusimtest.StartHIP(t)
	for _, text := range []string{"extern \"C\" __global__ void f() {}\nint x = ;", "\n#error not this one"} {
		if _, log := compileHIP(t, h, text, 6); !strings.Contains(string(log), "kernels.hip:2:") {
			t.Errorf("the log is %q", log)
		}
	}
	program, option := h.New("hiprtcCreateProgram", cText(""), nil, 0, nil, nil), cText("--no-such-option")
	defer runtime.KeepAlive(option)
	h.Want(badOption, "hiprtcCompileProgram", program, 1, &[]uintptr{uintptr(unsafe.Pointer(option))}[0])
	h.Want(badInput, "hiprtcCreateProgram", nil, cText(""), nil, 0, nil, nil)
	stale := program
	h.OK("hiprtcDestroyProgram", &program)
	h.WantMisuse(badProgram, "hiprtcCompileProgram", stale, 0, nil)
	h.OK("hiprtcVersion", new(int32), new(int32))
	equal(t, "the name of 6", h.Text("hiprtcGetErrorString", 6), "HIPRTC_ERROR_COMPILATION")
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
	const noBinary, badImage result = 209, 200
	h := gpusimtest.StartHIP(t)
	for _, c := range []struct {
		name  string
		image []byte
		want  result
	}{
		{"any XNACK", amdgcn(amd, gfx90a|anyXNACK), 0},
		{"no XNACK", amdgcn(amd, gfx90a|noXNACK), 0},
		{"XNACK", amdgcn(amd, gfx90a|withXNACK), noBinary},
		{"another processor", amdgcn(amd, gfx908), noBinary},
		{"another machine", amdgcn(8, 0), badImage},
		{"no ELF file", append([]byte("__CLANG"), make([]byte, 64)...), badImage},
	} {
		var module uint64
		r := h.Result("hipModuleLoadData", &module, &c.image[0])
		equal(t, c.name, r, c.want)
		if r == gpusimtest.Success {
			h.New("hipModuleGetFunction", module, cText("gather4_tiled"))
			h.OK("hipModuleUnload", module)
		}
	}
	h.Want(gpusimtest.InvalidValue, "hipModuleLoadData", nil, nil)
	if role() == "" {
		runsGather(t, h, amdgcn(amd, gfx90a))
		if out, err := child(t, "gfx908", "DLX_GPUSIM_HIP_ARCH=gfx908:sramecc+:xnack-").CombinedOutput(); err == nil {
			t.Errorf("a device of another architecture takes the code:\n%s", out)
		}
	}
}

// runsGather transposes bytes by a kernel of a code object. The arguments are given in one piece ("extra").
func runsGather(t *testing.T, h *gpusimtest.HIP, image []byte) {
	t.Helper()
	const n = 70                         // not whole tiles
	const pointer, bytes, last = 1, 2, 3 // HIP_LAUNCH_PARAM_BUFFER_POINTER and so on
	type constants struct {
		dstFirst, srcFirst         int32
		planes, wide, along, whole uint32
		extent                     [8]uint32
		dstStep, srcStep           [8]int32
	}
	module, f := functionHIP(h, image, "gather1_tiled")
	data, want := gpusimtest.Pattern(3, n*n), make([]byte, n*n)
	for i := range want {
		want[i] = data[i%n*n+i/n]
	}
	a := &struct {
		dst, src uint64
		c        constants
	}{h.Malloc(n * n), h.Malloc(n * n), constants{
		planes: 1, wide: 5, extent: [8]uint32{n, n, 1, 1, 1, 1, 1, 1}, dstStep: [8]int32{1, n}, srcStep: [8]int32{n, 1},
	}}
	h.Write(a.src, data)
	size := unsafe.Sizeof(*a)
	extra := [5]uintptr{pointer, uintptr(unsafe.Pointer(a)), bytes, uintptr(unsafe.Pointer(&size)), last}
	h.OK("hipModuleLaunchKernel", f, 1, 1, 1, 256, 1, 1, 0, nil, nil, &extra[0])
	size = 8
	h.Want(gpusimtest.InvalidValue, "hipModuleLaunchKernel", f, 1, 1, 1, 256, 1, 1, 0, nil, nil, &extra[0])
	runtime.KeepAlive(a)
	h.OK("hipDeviceSynchronize")
	h.Holds(a.dst, want)
	h.OK("hipModuleUnload", module)
}
