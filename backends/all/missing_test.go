package all

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// Whoever asks for a backend or a device that a program lacks reads which tag adds it.
func TestAMissingBackendNamesItsTag(t *testing.T) {
	types := map[string][]core.DeviceType{
		"cuda": {core.DeviceCUDA, core.DeviceCUDAHost, core.DeviceCUDAManaged}, "rocm": {core.DeviceROCM, core.DeviceROCMHost},
	}
	empty := new(core.Registry)
	for _, name := range Tags() {
		check := func(call string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), "-tags "+name) {
				t.Errorf("%s of %s: %v does not name the tag", call, name, err)
			}
		}
		_, err := empty.Backend(name)
		check("Registry.Backend", err)
		if types[name] == nil {
			id, err := core.ParseDevice(name)
			if err != nil {
				t.Fatal(err)
			}
			types[name] = []core.DeviceType{id.Type}
		}
		for _, kind := range types[name] {
			_, err = empty.Open(t.Context(), core.DeviceID{Type: kind})
			check("Registry.Open", err)
		}
		b := unbuilt.Backend(name)
		_, err = b.Devices(t.Context())
		check("Backend.Devices", err)
		_, err = b.Open(t.Context(), core.DeviceID{Type: types[name][0]})
		check("Backend.Open", err)
		if reason := b.Probe(t.Context()).Reason; !strings.Contains(reason, "-tags "+name) {
			t.Errorf("Probe of %s: %q does not name the tag", name, reason)
		}
		check("a function of the package", unbuilt.Error(name, "Wrap"))
	}
	if _, err := empty.Backend("mine"); err == nil || strings.Contains(err.Error(), "-tags") {
		t.Errorf("a backend that dlx does not have: %v", err)
	}
}
