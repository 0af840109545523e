//go:build cgo && unix

package onnxruntime_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// abi.h knows the functions of OrtApi by their positions. A C compiler compares them with the header that comes with
// onnxruntime_go.
func TestPositions(t *testing.T) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/yalue/onnxruntime_go").Output()
	must(t, err)
	ours, err := os.ReadFile("abi.h")
	must(t, err)
	source := "#include <stddef.h>\n#include \"onnxruntime_c_api.h\"\n#include \"abi.h\"\n" +
		"_Static_assert(offsetof(OrtApiBase, GetApi) == 0 && offsetof(OrtApiBase, GetVersionString) == sizeof(void *), \"OrtApiBase\");\n" +
		"_Static_assert(ORT_NOT_IMPLEMENTED == 9 && OrtDeviceAllocator == 0 && OrtMemTypeDefault == 0, \"constants\");\n" +
		"_Static_assert(sizeof(ONNXTensorElementDataType) == sizeof(int) && sizeof(OrtErrorCode) == sizeof(int), \"enums\");\n" +
		"_Static_assert(dlx_ort_api_version <= ORT_API_VERSION, \"version\");\n"
	found := regexp.MustCompile(`\bort_(\w+) = \d+`).FindAllStringSubmatch(string(ours), -1)
	for _, f := range found {
		source += fmt.Sprintf("_Static_assert(offsetof(OrtApi, %s) == ort_%[1]s * sizeof(void *), \"%[1]s\");\n", f[1])
	}
	if len(found) < 20 {
		t.Fatalf("%d functions in abi.h; the pattern does not find them", len(found))
	}
	compile := func(source string) (string, error) {
		file := filepath.Join(t.TempDir(), "positions.c")
		must(t, os.WriteFile(file, []byte(source), 0o600))
		compiler, err := exec.Command("go", "env", "CC").Output()
		must(t, err)
		out, err := exec.Command(strings.TrimSpace(string(compiler)), "-std=c11", "-fsyntax-only",
			"-I.", "-I"+strings.TrimSpace(string(module)), file).CombinedOutput()
		return string(out), err
	}
	if out, err := compile(source); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := compile(source + "_Static_assert(offsetof(OrtApi, RunWithBinding) == 0, \"wrong\");\n"); err == nil {
		t.Errorf("a wrong position passes\n%s", out)
	}
}
