//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"debug/elf"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// probing names the process that TestProbeSaysWhatIsMissing starts.
const probing = "DLX_VULKAN_TEST_PROBES"

func TestProbeSaysWhatIsMissing(t *testing.T) {
	if os.Getenv(probing) != "" {
		b := New(Options{})
		p := b.Probe(context.Background())
		_, devices := b.Devices(context.Background())
		_, open := b.Open(context.Background(), core.DeviceID{Type: core.DeviceVulkan})
		if devices == nil || open == nil || devices.Error() != p.Reason || open.Error() != p.Reason {
			t.Errorf("the reasons differ: Devices %v, Open %v", devices, open)
		}
		typed(t, open, "Open")
		t.Logf("available: %v, reason: %s", p.Available, p.Reason)
		return
	}
	for _, c := range []struct{ rule, variable, value, reason string }{
		{"no library", "DLX_VULKAN_LIBRARY", "/nowhere/libvulkan.so", "/nowhere/libvulkan.so: cannot open"},
		{"a library that is another one", "DLX_VULKAN_LIBRARY", "libm.so.6", "vkGetInstanceProcAddr"},
		{"no driver", "VK_DRIVER_FILES", "/nowhere/icd.json", "is a driver installed"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			probe := exec.Command(os.Args[0], "-test.run=^TestProbeSaysWhatIsMissing$", "-test.v")
			probe.Env = append(os.Environ(), probing+"=1", "VK_ICD_FILENAMES=", c.variable+"="+c.value)
			if c.variable == "VK_DRIVER_FILES" {
				probe.Env = append(probe.Env, "VK_ICD_FILENAMES="+c.value)
			}
			out, err := probe.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "available: false") || !strings.Contains(string(out), c.reason) {
				t.Errorf("error %v; the probe should say %q, but says:\n%s", err, c.reason, out)
			}
		})
	}
}

// A program with this backend starts where there is no libvulkan.
func TestLibraryIsNotLinked(t *testing.T) {
	f, err := elf.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	needed, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range needed {
		if strings.Contains(l, "vulkan") {
			t.Errorf("the test needs %s to start; all it needs: %v", l, needed)
		}
	}
}

func TestNewTakesOptionsAndTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		environment string
		options     Options
		want        options
	}{
		{"", Options{}, options{}},
		{"", Options{Validation: true}, options{validation: true}},
		{"1", Options{}, options{validation: true, strict: true}},
		{"1", Options{Validation: true}, options{validation: true, strict: true}},
	} {
		t.Setenv("DLX_VULKAN_VALIDATION", c.environment)
		if got := New(c.options).(backend).options; got != c.want {
			t.Errorf("%q, %+v: %+v, want %+v", c.environment, c.options, got, c.want)
		}
	}
}
