package abi_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
	"github.com/dlx-go/dlx/core/typecode"
)

// headerFolder is where the standard's <dlpack/dlpack.h> lies.
func headerFolder(t *testing.T) string {
	folder := os.Getenv("DLX_DLPACK_INCLUDE")
	if folder == "" {
		t.Skip("DLX_DLPACK_INCLUDE does not name the folder of dlpack/dlpack.h; make test sets it")
	}
	return folder
}

// evaluate compiles a C program that prints the expressions, and returns their values.
func evaluate(t *testing.T, include, header string, expressions []string) map[string]int64 {
	t.Helper()
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	var program strings.Builder
	fmt.Fprintf(&program, "#include <stddef.h>\n#include <stdio.h>\n#include <%s>\nint main(void) {\n", header)
	for _, e := range expressions {
		fmt.Fprintf(&program, "\tprintf(\"%s=%%lld\\n\", (long long)(%s));\n", e, e)
	}
	program.WriteString("\treturn 0;\n}\n")

	source := filepath.Join(t.TempDir(), "probe.c")
	if err := os.WriteFile(source, []byte(program.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := strings.TrimSuffix(source, ".c")
	if out, err := exec.Command(compiler, "-std=c11", "-Werror", "-I", include, "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]int64)
	for line := range strings.Lines(string(out)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), "=")
		if values[name], err = strconv.ParseInt(number, 10, 64); err != nil {
			t.Fatalf("the probe printed %q", line)
		}
	}
	return values
}

// compare checks Go's numbers against those of a header.
func compare(t *testing.T, include, header string, want map[string]int64) {
	t.Helper()
	var expressions []string
	for e := range want {
		expressions = append(expressions, e)
	}
	got := evaluate(t, include, header, expressions)
	for e, here := range want {
		if v, ok := got[e]; !ok || v != here {
			t.Errorf("%s: %s is %d, here it is %d", header, e, v, here)
		}
	}
}

func TestLayoutIsThatOfTheRealHeader(t *testing.T) {
	compare(t, headerFolder(t), "dlpack/dlpack.h", abi.Layout())
}

func TestLayoutIsThatOfOurHeader(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, here, "abi.h", abi.Layout())
}

func TestConstantsAreThoseOfTheRealHeader(t *testing.T) {
	compare(t, headerFolder(t), "dlpack/dlpack.h", map[string]int64{
		"DLPACK_MAJOR_VERSION":                       abi.MajorVersion,
		"DLPACK_MINOR_VERSION":                       abi.MinorVersion,
		"DLPACK_FLAG_BITMASK_READ_ONLY":              abi.FlagReadOnly,
		"DLPACK_FLAG_BITMASK_IS_COPIED":              abi.FlagCopied,
		"DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED": abi.FlagSubBytePadded,

		"kDLCPU":         int64(core.DeviceCPU),
		"kDLCUDA":        int64(core.DeviceCUDA),
		"kDLCUDAHost":    int64(core.DeviceCUDAHost),
		"kDLOpenCL":      int64(core.DeviceOpenCL),
		"kDLVulkan":      int64(core.DeviceVulkan),
		"kDLMetal":       int64(core.DeviceMetal),
		"kDLVPI":         int64(core.DeviceVPI),
		"kDLROCM":        int64(core.DeviceROCM),
		"kDLROCMHost":    int64(core.DeviceROCMHost),
		"kDLExtDev":      int64(core.DeviceExt),
		"kDLCUDAManaged": int64(core.DeviceCUDAManaged),
		"kDLOneAPI":      int64(core.DeviceOneAPI),
		"kDLWebGPU":      int64(core.DeviceWebGPU),
		"kDLHexagon":     int64(core.DeviceHexagon),
		"kDLMAIA":        int64(core.DeviceMAIA),
		"kDLTrn":         int64(core.DeviceTrn),

		"kDLInt":                int64(typecode.Int),
		"kDLUInt":               int64(typecode.UInt),
		"kDLFloat":              int64(typecode.Float),
		"kDLOpaqueHandle":       int64(typecode.OpaqueHandle),
		"kDLBfloat":             int64(typecode.Bfloat),
		"kDLComplex":            int64(typecode.Complex),
		"kDLBool":               int64(typecode.Bool),
		"kDLFloat8_e3m4":        int64(typecode.Float8E3M4),
		"kDLFloat8_e4m3":        int64(typecode.Float8E4M3),
		"kDLFloat8_e4m3b11fnuz": int64(typecode.Float8E4M3B11FNUZ),
		"kDLFloat8_e4m3fn":      int64(typecode.Float8E4M3FN),
		"kDLFloat8_e4m3fnuz":    int64(typecode.Float8E4M3FNUZ),
		"kDLFloat8_e5m2":        int64(typecode.Float8E5M2),
		"kDLFloat8_e5m2fnuz":    int64(typecode.Float8E5M2FNUZ),
		"kDLFloat8_e8m0fnu":     int64(typecode.Float8E8M0FNU),
		"kDLFloat6_e2m3fn":      int64(typecode.Float6E2M3FN),
		"kDLFloat6_e3m2fn":      int64(typecode.Float6E3M2FN),
		"kDLFloat4_e2m1fn":      int64(typecode.Float4E2M1FN),
	})
}

func TestFlagsOfCoreAreThoseOfTheABI(t *testing.T) {
	if core.FlagReadOnly != abi.FlagReadOnly || core.FlagCopied != abi.FlagCopied || core.FlagSubBytePadded != abi.FlagSubBytePadded {
		t.Error("core.Flags must have the values of DLPACK_FLAG_BITMASK_*: they are converted without a table")
	}
}
