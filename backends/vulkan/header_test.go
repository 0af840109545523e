//go:build vulkan && linux && cgo

package vulkan

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeaderStandsAlone compiles dlpack_vulkan.h as other languages do, in C and C++, and
// holds it to the layout that was published: a member that moves breaks them all.
func TestHeaderStandsAlone(t *testing.T) {
	const source = `#include "dlpack_vulkan.h"
#include <stddef.h>
#ifdef __cplusplus
#define ASSERT static_assert
#else
#define ASSERT _Static_assert
#endif
#define AT(member, offset) ASSERT(offsetof(DLVulkanBuffer, member) == (offset), #member)
AT(magic, 0); AT(version_major, 8); AT(version_minor, 12); AT(struct_size, 16); AT(queue_family, 20);
AT(instance, 24); AT(physical_device, 32); AT(device, 40); AT(queue, 48);
AT(buffer, 56); AT(memory, 64); AT(memory_offset, 72); AT(memory_size, 80); AT(size, 88); AT(mapped, 96);
AT(shared_with, 104); AT(memory_type, 108); AT(export_types, 112); AT(flags, 116);
AT(device_uuid, 120); AT(driver_uuid, 136); AT(queue_lock, 152); AT(queue_unlock, 160); AT(queue_context, 168);
ASSERT(sizeof(DLVulkanBuffer) == 176, "size");
`
	if descriptorBytes != 176 {
		t.Errorf("Go's DLVulkanBuffer has %d bytes, the header's 176", descriptorBytes)
	}
	for _, c := range []struct{ compiler, file, standard string }{{"cc", "layout.c", "-std=c11"}, {"c++", "layout.cc", "-std=c++11"}} {
		if _, err := exec.LookPath(c.compiler); err != nil {
			t.Fatalf("%v: install a C and a C++ compiler (Debian: build-essential)", err)
		}
		file := filepath.Join(t.TempDir(), c.file)
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(c.compiler, c.standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I.", file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", c.compiler, err, strings.TrimSpace(string(out)))
		}
	}
}
