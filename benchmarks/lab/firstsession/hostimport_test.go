//go:build cuda && vulkan && linux && cgo

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// loader builds testdata/loader.c, and returns the variable that makes the command use it.
func loader(t *testing.T, flags ...string) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libvulkan.so.1")
	args := slices.Concat(strings.Fields(os.Getenv("CGO_CFLAGS")), flags, []string{"-std=gnu11", "-shared", "-fPIC",
		"-Wall", "-Wextra", "-Werror", "-o", library, "testdata/loader.c", "-ldl"})
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return "DLX_VULKAN_LIBRARY=" + library
}

// imports runs the experiment with a kind of memory, and returns its rows.
func imports(t *testing.T, kind string, env ...string) []row {
	t.Helper()
	name := "host_import/" + kind
	r, _ := sessionOf(t, slices.Concat(simulated(t), env), "-experiment", name)
	rows := rowsOf(t, r, name)
	if len(rows) != 6 {
		t.Fatalf("%d rows, want one for each of 4 imports and 2 registrations: %v", len(rows), rows)
	}
	return rows
}

// An import that the device does not write to does not make the next one look as if the device did not read it.
func TestLostWritesAreNotLostReads(t *testing.T) {
	rows := imports(t, "anonymous", loader(t, "-DWRITES_ARE_LOST"))
	for _, x := range rows[:2] {
		if x["device_reads"] != true || x["device_writes"] != false {
			t.Errorf("want an import that the device reads, and does not write: %v", x)
		}
	}
}

// Whether CUDA registers memory is said together with who had it before.
func TestRegistrationsSayWhoHasTheMemory(t *testing.T) {
	for _, c := range []struct {
		kind           string
		env            []string
		vulkan, byCUDA bool
	}{
		{"anonymous", nil, true, false},
		{"anonymous", []string{loader(t)}, false, false},
		{"cuda_registered", nil, true, true},
	} {
		for _, x := range imports(t, c.kind, c.env...)[4:] {
			if x["imported_by_vulkan"] != c.vulkan || x["known_to_cuda_before"] != c.byCUDA {
				t.Errorf("%s, %q: %v; want imported_by_vulkan %v, known_to_cuda_before %v", c.kind, c.env, x, c.vulkan, c.byCUDA)
			}
		}
	}
}
