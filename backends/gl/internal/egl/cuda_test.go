//go:build gl && linux && cgo

package egl

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/gl/internal/egl/egltest"
	"github.com/dlx-go/dlx/core"
)

func TestCUDADevice(t *testing.T) {
	const extensions = "EGL_EXT_device_drm EGL_NV_device_cuda"
	card := func(number int64) egltest.State {
		return egltest.State{Current: true, Device: true, Extensions: extensions, Number: number, HasNumber: true}
	}
	for _, c := range []struct {
		rule  string
		state egltest.State
		want  int32
		call  string // that fails
	}{
		{"the first device", card(0), 0, ""},
		{"another device", card(3), 3, ""},
		{"no context, or one of GLX", egltest.State{}, 0, "eglGetCurrentDisplay"},
		{"a display without a device", egltest.State{Current: true}, 0, "eglQueryDisplayAttribEXT"},
		{"a device of another vendor", egltest.State{Current: true, Device: true, Extensions: "EGL_EXT_device_drm EGL_NV_device_cuda_of_others", HasNumber: true}, 0, "eglQueryDeviceStringEXT"},
		{"a device that CUDA does not see", egltest.State{Current: true, Device: true, Extensions: extensions}, 0, "eglQueryDeviceAttribEXT"},
		{"a number below 0", card(-1), 0, "eglQueryDeviceAttribEXT"},
		{"a number that is too large", card(1 << 40), 0, "eglQueryDeviceAttribEXT"},
	} {
		f := egltest.Fake(c.state)
		fake := &table{getCurrentDisplay: f.GetCurrentDisplay, queryDisplayAttrib: f.QueryDisplayAttrib,
			queryDeviceString: f.QueryDeviceString, queryDeviceAttrib: f.QueryDeviceAttrib, getError: f.GetError}
		got, err := fake.cudaDevice()
		if c.call == "" {
			if err != nil || got != c.want {
				t.Errorf("%s: %d, error %v, want %d", c.rule, got, err, c.want)
			}
			continue
		}
		typed := new(core.Error)
		if !errors.Is(err, core.ErrNotSupported) || !errors.As(err, &typed) || typed.Call != c.call {
			t.Errorf("%s: %d, error %v, want %q by %s", c.rule, got, err, core.ErrNotSupported, c.call)
		}
	}
	if _, err := new(table).cudaDevice(); !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "EGL_EXT_device_query") {
		t.Errorf("without EGL_EXT_device_query: %v", err)
	}
}
