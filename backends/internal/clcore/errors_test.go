//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

func TestCodesAreNamedAndSorted(t *testing.T) {
	for s, want := range map[driver.Status]struct {
		name     string
		sentinel error
	}{
		-1:    {"CL_DEVICE_NOT_FOUND", core.ErrDevice},
		-2:    {"CL_DEVICE_NOT_AVAILABLE", core.ErrDeviceLost},
		-3:    {"CL_COMPILER_NOT_AVAILABLE", core.ErrNotSupported},
		-4:    {"CL_MEM_OBJECT_ALLOCATION_FAILURE", core.ErrOutOfMemory},
		-5:    {"CL_OUT_OF_RESOURCES", core.ErrOutOfMemory},
		-6:    {"CL_OUT_OF_HOST_MEMORY", core.ErrOutOfMemory},
		-14:   {"CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", core.ErrInvalid},
		-38:   {"CL_INVALID_MEM_OBJECT", core.ErrInvalid},
		-59:   {"CL_INVALID_OPERATION", core.ErrNotSupported},
		-61:   {"CL_INVALID_BUFFER_SIZE", core.ErrOutOfMemory},
		-1001: {"CL_PLATFORM_NOT_FOUND_KHR", core.ErrNotSupported},
		-1121: {"CL_CONTEXT_TERMINATED_KHR", core.ErrDeviceLost},
		-9999: {"OpenCL code -9999", core.ErrDeviceLost},
		-4711: {"OpenCL code -4711", core.ErrInvalid},
	} {
		err := OpenCL.check(s, "clFinish", "the field %d", 7)
		var typed *core.Error
		if !errors.Is(err, want.sentinel) || !errors.As(err, &typed) || typed.Backend != "opencl" || typed.Call != "clFinish" || typed.Code != int64(s) {
			t.Errorf("code %d: error %v, want %q", s, err, want.sentinel)
			continue
		}
		if !strings.Contains(err.Error(), want.name) || !strings.Contains(err.Error(), "the field 7") {
			t.Errorf("code %d: the text %q lacks %s or the detail", s, err, want.name)
		}
	}
	if err := OpenCL.check(driver.Success, "clFinish", ""); err != nil {
		t.Errorf("success is the error %v", err)
	}
}

func TestABuildThatFailsTellsWhatTheCompilerSays(t *testing.T) {
	needDriver(t, OpenCL)
	d, err := variants[3].open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	inner, err := OpenCL.deviceOf("test", d)
	if err != nil {
		t.Fatal(err)
	}
	source := gatherSource
	defer func() { gatherSource = source }()
	gatherSource = "__kernel void gather(__global WORD *dst) { no_such_name(dst); }"
	inner.gather.mu.Lock()
	defer inner.gather.mu.Unlock()
	_, err = inner.gather.compile(inner, form{4, 2})
	if !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "clBuildProgram") || !strings.Contains(err.Error(), "no_such_name") {
		t.Errorf("error %v, want %q of clBuildProgram with the compiler's words", err, core.ErrNotSupported)
	}
}
