//go:build cgo && unix

package pjrt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// abi.h knows functions by their offsets and has structs of its own. A C compiler compares them with the header that
// comes with go-xla.
func TestLayout(t *testing.T) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla").Output()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("abi.h")
	if err != nil {
		t.Fatal(err)
	}
	source := "#include <stddef.h>\n#include \"pjrt_c_api.h\"\n#include \"abi.h\"\n"
	is := func(format string, args ...any) {
		condition := fmt.Sprintf(format, args...)
		source += fmt.Sprintf("_Static_assert(%s, \"%s\");\n", condition, condition)
	}
	functions := regexp.MustCompile(`off_(\w+) = \d+`).FindAllStringSubmatch(string(ours), -1)
	if len(functions) != 12 {
		t.Fatalf("%d functions in abi.h; the pattern does not find them", len(functions))
	}
	for _, f := range functions {
		is("offsetof(PJRT_Api, %s) == off_%[1]s", f[1])
	}
	for _, s := range [][2]string{ // the structs with one result, and that
		{"PJRT_Error_GetCode", "code"}, {"PJRT_Event_IsReady", "is_ready"}, {"PJRT_Buffer_IsOnCpu", "is_on_cpu"},
		{"PJRT_Buffer_OnDeviceSizeInBytes", "on_device_size_in_bytes"}, {"PJRT_Buffer_ReadyEvent", "event"},
	} {
		is("offsetof(%s_Args, %s) == offsetof(dlx_pjrt_args, out)", s[0], s[1])
	}
	for _, s := range [][2]string{ // and without
		{"PJRT_Error_Destroy", "error"}, {"PJRT_Event_Destroy", "event"}, {"PJRT_Event_Await", "event"},
		{"PJRT_Buffer_IncreaseExternalReferenceCount", "buffer"}, {"PJRT_Buffer_DecreaseExternalReferenceCount", "buffer"},
		{"PJRT_Error_GetCode", "error"}, {"PJRT_Event_IsReady", "event"}, {"PJRT_Buffer_IsOnCpu", "buffer"},
		{"PJRT_Buffer_OnDeviceSizeInBytes", "buffer"}, {"PJRT_Buffer_ReadyEvent", "buffer"},
	} {
		is("offsetof(%s_Args, %s) == offsetof(dlx_pjrt_args, object)", s[0], s[1])
		is("offsetof(%s_Args, extension_start) == offsetof(dlx_pjrt_args, extension)", s[0])
	}
	for _, f := range []string{"error", "message", "message_size"} {
		is("offsetof(PJRT_Error_Message_Args, %s) == offsetof(dlx_pjrt_message_args, %[1]s)", f)
	}
	is("sizeof(PJRT_Error_Message_Args) == sizeof(dlx_pjrt_message_args)")
	for _, f := range []string{"buffer", "layout.struct_size", "layout.type", "layout.tiled.minor_to_major", "layout.tiled.minor_to_major_size",
		"layout.tiled.num_tiles", "layout.strides.byte_strides", "layout.strides.num_byte_strides"} {
		is("offsetof(PJRT_Buffer_GetMemoryLayout_Args, %s) == offsetof(dlx_pjrt_layout_args, %[1]s)", f)
	}
	is("sizeof(PJRT_Buffer_GetMemoryLayout_Args) == sizeof(dlx_pjrt_layout_args)")
	is("PJRT_Buffer_MemoryLayout_Type_Tiled == 0 && PJRT_Buffer_MemoryLayout_Type_Strides == 1")
	is("PJRT_Error_Code_RESOURCE_EXHAUSTED == %d && PJRT_Error_Code_UNIMPLEMENTED == %d", resourceExhausted, unimplemented)
	is("sizeof(PJRT_Error_Code) == 4 && sizeof(bool) == 1")

	compile := func(source string) (string, error) {
		file := filepath.Join(t.TempDir(), "layout.c")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		compiler, err := exec.Command("go", "env", "CC").Output()
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(strings.TrimSpace(string(compiler)), "-std=c11", "-fsyntax-only",
			"-I.", "-I"+filepath.Join(strings.TrimSpace(string(module)), "pjrt"), file).CombinedOutput()
		return string(out), err
	}
	if out, err := compile(source); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	is("offsetof(PJRT_Api, PJRT_Event_Await) == off_PJRT_Event_Destroy")
	if out, err := compile(source); err == nil {
		t.Errorf("a wrong offset passes\n%s", out)
	}
}

func TestStrides(t *testing.T) {
	for _, c := range []struct{ order, shape, want []int64 }{
		{nil, nil, []int64{}},
		{[]int64{1, 0}, []int64{2, 3}, []int64{3, 1}},
		{[]int64{0, 1}, []int64{2, 3}, []int64{1, 2}},
		{[]int64{1, 2, 0}, []int64{2, 3, 4}, []int64{12, 1, 3}},
		{[]int64{1, 0}, []int64{0, 3}, []int64{3, 1}},
		{[]int64{0, 0}, []int64{2, 3}, nil},
		{[]int64{-1, 0}, []int64{2, 3}, nil},
		{[]int64{2, 0}, []int64{2, 3}, nil},
		{[]int64{1, 0}, []int64{2, -3}, nil},
		{[]int64{2, 1, 0}, []int64{1 << 40, 1 << 40, 1}, nil},
	} {
		got, err := orderStrides(c.order, c.shape)
		if c.want == nil && !errors.Is(err, core.ErrLayout) || c.want != nil && (err != nil || !slices.Equal(got, c.want)) {
			t.Errorf("order %v of %v: %v, %v; want %v", c.order, c.shape, got, err, c.want)
		}
	}
	if got, err := byteStrides([]int64{24, -8}, 8); err != nil || !slices.Equal(got, []int64{3, -1}) {
		t.Error(got, err)
	}
	if _, err := byteStrides([]int64{12}, 8); !errors.Is(err, core.ErrLayout) {
		t.Error(err)
	}
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		platform string
		onHost   bool
		hardware int
		want     string
	}{
		{"cpu", true, 3, "cpu"}, {"cuda", false, 1, "cuda:1"}, {"rocm", false, 0, "rocm:0"}, {"cuda", true, 1, "cuda_host"},
		{"tpu", false, 0, ""}, {"cpu", false, 0, ""}, {"cuda", false, -1, ""}, {"tpu", true, 0, ""},
	} {
		got, err := place(c.platform, c.onHost, c.hardware)
		if c.want == "" && !errors.Is(err, core.ErrNotSupported) || c.want != "" && (err != nil || got.String() != c.want) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
