package vkqueues

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:embed src/layer.c
var source []byte

// Count is how many queues a device has with the layer.
const Count = 4

// Harmless are parts of messages that do not mean an error. Loaders say that a variable enables the layer. Validation
// layers before 1.3.296 may lose track of a timeline that several queues signal and wait for (Vulkan-ValidationLayers
// pull request 8519): they wait for 10 s, and say that it is most likely their own error.
var Harmless = []string{
	"env var 'VK_INSTANCE_LAYERS' defined and adding layers",
	"UNASSIGNED-VkSemaphore-state-timeout",
}

const manifest = `{
	"file_format_version": "1.1.0",
	"layer": {
		"name": "VK_LAYER_DLX_queues", "type": "GLOBAL", "library_path": %q, "api_version": "1.3.0",
		"implementation_version": "1", "description": "several queues for tests",
		"functions": {"vkGetInstanceProcAddr": "dlx_queues_instance", "vkGetDeviceProcAddr": "dlx_queues_device"}
	}
}
`

// folders are where loaders look for explicit layers, unless a variable names other folders.
const folders = "/usr/local/share/vulkan/explicit_layer.d:/usr/share/vulkan/explicit_layer.d:/etc/vulkan/explicit_layer.d"

// headers are those that the layer includes.
const headers = "#include <vulkan/vk_layer.h>\n#include <vulkan/vulkan.h>\n"

// Use builds the layer and enables it for every instance that is made before the test ends. The test is skipped if
// there is no C compiler, or if that finds no headers of Vulkan, also not with CGO_CFLAGS, whose flags have no quotes. It
// cannot run in parallel with others.
func Use(t testing.TB) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("the layer that gives a driver several queues cannot be built: install a C compiler (Debian: build-essential)")
	}
	flags := strings.Fields(os.Getenv("CGO_CFLAGS"))
	// Messages of compilers differ, so whether there are headers is asked before.
	probe := exec.Command(compiler, slices.Concat(flags, []string{"-std=gnu11", "-fsyntax-only", "-x", "c", "-"})...)
	probe.Stdin = strings.NewReader(headers)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("the layer that gives a driver several queues cannot be built: install Vulkan's headers (Debian: libvulkan-dev)\n%s", out)
	}
	folder := t.TempDir()
	code, library := filepath.Join(folder, "layer.c"), filepath.Join(folder, "libdlx_queues.so")
	for path, data := range map[string][]byte{code: source, filepath.Join(folder, "queues.json"): fmt.Appendf(nil, manifest, library)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command(compiler, slices.Concat(flags, []string{"-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread",
		"-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", library, code})...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, strings.TrimSpace(string(out)))
	}
	others := os.Getenv("VK_LAYER_PATH")
	if others == "" {
		others = folders
	}
	// What comes first stands nearest to the program. Old loaders take the order of the folders. Loaders ignore a
	// layer that is not installed.
	t.Setenv("VK_LAYER_PATH", others+":"+folder)
	t.Setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation:VK_LAYER_DLX_queues")
}
