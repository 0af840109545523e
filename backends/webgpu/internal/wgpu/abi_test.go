package wgpu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// abi.h has structs and numbers of its own, and calls.h has types of functions. A C compiler compares them with the headers that
// come with wgpu-native.
func TestTheHeadersAgree(t *testing.T) {
	const headers = "../../../../.venv/webgpu"
	if _, err := os.Stat(filepath.Join(headers, "wgpu.h")); err != nil {
		t.Skipf("make setup installs the headers of wgpu-native on Linux, for amd64 and arm64: %v", err)
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler: install gcc")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the backend is for Linux")
	}
	folder, err := filepath.Abs(headers)
	if err != nil {
		t.Fatal(err)
	}
	source := "#include \"webgpu.h\"\n#include \"wgpu.h\"\n#include \"calls.h\"\n"
	is := func(format string, args ...any) {
		condition := fmt.Sprintf(format, args...)
		source += fmt.Sprintf("_Static_assert(%s, \"\");\n", condition)
	}
	for _, s := range structs {
		is("sizeof(%s) == sizeof(%s)", s.ours, s.theirs)
		for _, f := range strings.Fields(s.fields) {
			ours, theirs, _ := strings.Cut(f, "=")
			is("offsetof(%s, %s) == offsetof(%s, %s)", s.ours, ours, s.theirs, theirs)
			is("sizeof(((%s *)0)->%s) == sizeof(((%s *)0)->%s)", s.ours, ours, s.theirs, theirs)
		}
	}
	abi, err := os.ReadFile("abi.h")
	if err != nil {
		t.Fatal(err)
	}
	declared, constants := readHeaders(t, folder)
	numbers := regexp.MustCompile(`(DLX_WGPU_\w+) = \d+, *// (WGPU\w+)`).FindAllStringSubmatch(string(abi), -1)
	if len(numbers) < 14 {
		t.Fatalf("%d numbers in abi.h; the pattern does not find them", len(numbers))
	}
	for _, n := range numbers {
		if value, ok := constants[n[2]]; ok { // a variable, which is no constant for the compiler
			is("%s == %s", n[1], value)
		} else {
			is("(int)%s == (int)%s", n[1], n[2])
		}
	}
	for _, status := range []string{"WGPUStatus_Success", "WGPUMapAsyncStatus_Success", "WGPUQueueWorkDoneStatus_Success", "WGPURequestDeviceStatus_Success", "WGPUPopErrorScopeStatus_Success"} {
		is("(int)DLX_WGPU_SUCCESS == (int)%s", status)
	}
	// Functions agree in the number of their parameters and in the sizes of these and of the result.
	calls, err := os.ReadFile("calls.h")
	if err != nil {
		t.Fatal(err)
	}
	functions := regexp.MustCompile(`F\(([^,]+), (\w+), \((.*?)\)\)`).FindAllStringSubmatch(string(calls), -1)
	if len(functions) < 45 {
		t.Fatalf("%d functions in calls.h; the pattern does not find them", len(functions))
	}
	for _, f := range functions {
		there, ok := declared["wgpu"+f[2]]
		if !ok {
			t.Errorf("no header declares wgpu%s", f[2])
			continue
		}
		ours := parameters(f[3])
		if len(ours) != len(there.parameters) {
			t.Errorf("wgpu%s has %d parameters here and %d in the header", f[2], len(ours), len(there.parameters))
			continue
		}
		for i := range ours {
			is("sizeof(%s) == sizeof(%s)", ours[i], there.parameters[i])
		}
		if f[1] != "void" || there.result != "void" {
			is("sizeof(%s) == sizeof(%s)", f[1], there.result)
		}
	}
	c := exec.CommandContext(t.Context(), compiler, "-std=c11", "-fsyntax-only", "-I", folder, "-I", ".", "-x", "c", "-")
	c.Stdin = strings.NewReader(source)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// declaration is a function of a header, with the types of its parameters.
type declaration struct {
	result     string
	parameters []string
}

// readHeaders finds the functions of the headers, and the values of their variables.
func readHeaders(t *testing.T, folder string) (found map[string]declaration, constants map[string]string) {
	t.Helper()
	found, constants = make(map[string]declaration), make(map[string]string)
	for _, name := range []string{"webgpu.h", "wgpu.h"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`static const WGPU\w+ (WGPU\w+) = (0x[0-9A-Fa-f]+);`).FindAllStringSubmatch(string(text), -1) {
			constants[m[1]] = m[2]
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:WGPU_EXPORT|   ) ?([\w ]+?[ *]+)(wgpu\w+)\((.*?)\)(?: WGPU_FUNCTION_ATTRIBUTE)?;`).FindAllStringSubmatch(string(text), -1) {
			found[m[2]] = declaration{strings.TrimSpace(m[1]), parameters(strings.ReplaceAll(m[3], "WGPU_NULLABLE ", ""))}
		}
	}
	return found, constants
}

// parameters returns the types of a list of parameters.
func parameters(list string) []string {
	if list == "void" || list == "" {
		return nil
	}
	name := regexp.MustCompile(`^(.*?[\w*]) ?\b[a-zA-Z]\w*$`)
	var types []string
	for _, p := range strings.Split(list, ",") {
		p = strings.TrimSpace(p)
		if strings.Contains(p, "*") {
			p = "void *" // all pointers have one size
		} else if m := name.FindStringSubmatch(p); m != nil && strings.Contains(p, " ") {
			p = m[1]
		}
		types = append(types, p)
	}
	return types
}

// structs are the types of abi.h, with their fields and those of the header that stand for them.
var structs = []struct{ ours, theirs, fields string }{
	{"dlx_wgpu_chain", "WGPUChainedStruct", "next=next type=sType"},
	{"dlx_wgpu_text", "WGPUStringView", "data=data length=length"},
	{"dlx_wgpu_limits", "WGPULimits", "next=nextInChain storage_range=maxStorageBufferBindingSize storage_alignment=minStorageBufferOffsetAlignment buffer_size=maxBufferSize group_memory=maxComputeWorkgroupStorageSize groups=maxComputeWorkgroupsPerDimension immediates=maxImmediateSize"},
	{"dlx_wgpu_adapter_info", "WGPUAdapterInfo", "next=nextInChain device=device description=description backend=backendType type=adapterType vendor_id=vendorID device_id=deviceID"},
	{"dlx_wgpu_labeled", "WGPUQueueDescriptor", "next=nextInChain label=label"},
	{"dlx_wgpu_labeled", "WGPUShaderModuleDescriptor", "next=nextInChain label=label"},
	{"dlx_wgpu_labeled", "WGPUCommandEncoderDescriptor", "next=nextInChain label=label"},
	{"dlx_wgpu_labeled", "WGPUCommandBufferDescriptor", "next=nextInChain label=label"},
	{"dlx_wgpu_callback", "WGPUDeviceLostCallbackInfo", "next=nextInChain mode=mode call=callback first=userdata1 second=userdata2"},
	{"dlx_wgpu_callback", "WGPURequestDeviceCallbackInfo", "mode=mode call=callback first=userdata1 second=userdata2"},
	{"dlx_wgpu_callback", "WGPUBufferMapCallbackInfo", "mode=mode call=callback first=userdata1 second=userdata2"},
	{"dlx_wgpu_callback", "WGPUQueueWorkDoneCallbackInfo", "mode=mode call=callback first=userdata1 second=userdata2"},
	{"dlx_wgpu_callback", "WGPUPopErrorScopeCallbackInfo", "mode=mode call=callback first=userdata1 second=userdata2"},
	{"dlx_wgpu_uncaptured", "WGPUUncapturedErrorCallbackInfo", "next=nextInChain call=callback first=userdata1 second=userdata2"},
	{"dlx_wgpu_device_descriptor", "WGPUDeviceDescriptor", "next=nextInChain limits=requiredLimits queue=defaultQueue lost=deviceLostCallbackInfo uncaptured=uncapturedErrorCallbackInfo"},
	{"dlx_wgpu_buffer_descriptor", "WGPUBufferDescriptor", "next=nextInChain usage=usage size=size mapped=mappedAtCreation"},
	{"dlx_wgpu_wgsl", "WGPUShaderSourceWGSL", "chain=chain code=code"},
	{"dlx_wgpu_pipeline_descriptor", "WGPUComputePipelineDescriptor", "next=nextInChain layout=layout compute.module=compute.module compute.entry=compute.entryPoint compute.constants=compute.constants"},
	{"dlx_wgpu_bind_entry", "WGPUBindGroupEntry", "next=nextInChain binding=binding buffer=buffer offset=offset size=size"},
	{"dlx_wgpu_bind_descriptor", "WGPUBindGroupDescriptor", "next=nextInChain layout=layout entry_count=entryCount entries=entries"},
}
