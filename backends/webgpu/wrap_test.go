//go:build webgpu && linux && cgo

package webgpu

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/backends/webgpu/internal/faults"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// wrapped returns a device over the WGPUDevice of a program, which is that of another device. The program releases its
// own before the result is closed.
func wrapped(tb testing.TB) core.Device {
	tb.Helper()
	program := open(tb)
	native, err := DeviceOf(program)
	if err != nil {
		tb.Fatal(err)
	}
	d, err := Wrap(tb.Context(), native, 0)
	if err != nil {
		tb.Fatal(err)
	}
	closeDevice(tb, program)
	return d
}

func TestConformanceOfAWrappedDevice(t *testing.T) {
	backendtest.Run(t, wrapped, backendtest.Options{Variant: 2, Variants: 3})
}

func TestWhatCannotBeWrapped(t *testing.T) {
	d := open(t)
	defer closeDevice(t, d)
	native, err := DeviceOf(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule   string
		device uintptr
		index  int32
		want   error
	}{
		{"no WGPUDevice", 0, 0, core.ErrInvalid},
		{"a negative index", native, -1, core.ErrDevice},
		{"an index that no adapter has", native, 1000, core.ErrDevice},
	} {
		if _, err := Wrap(t.Context(), c.device, c.index); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %q", c.rule, err, c.want)
		}
	}
}

func TestErrorsOfAWrappedDeviceDoNotReachTheProgramsScope(t *testing.T) {
	closeDevice(t, open(t))
	installFaults()
	program, other := open(t), open(t)
	defer closeDevice(t, program)
	defer closeDevice(t, other)
	native, err := DeviceOf(program)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Wrap(t.Context(), native, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeDevice(t, d)
	runtime.LockOSThread() // where the scope is
	defer runtime.UnlockOSThread()
	foreign, destroyed := made(t, other, wgpu.Memory, 100), made(t, program, wgpu.Memory, 100)
	defer wgpu.ReleaseBuffer(foreign)
	defer wgpu.ReleaseBuffer(destroyed)
	m, err := d.(core.PointerImporter).ImportPointer(uintptr(destroyed), 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	tensor := coretest.Keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{100}}))
	host := coretest.Keep(t)(core.FromSlice(make([]uint8, 100)))
	faults.DestroyBuffer(uintptr(destroyed))
	faults.PushScope(native)
	_, refused := d.(core.PointerImporter).ImportPointer(uintptr(foreign), 100, nil)
	for _, err := range []error{refused, d.Copy(t.Context(), nil, tensor, host)} {
		var typed *core.Error
		if !errors.Is(err, core.ErrInvalid) || !errors.As(err, &typed) || typed.Call == "" {
			t.Errorf("error %v, want %q", err, core.ErrInvalid)
		}
	}
	own := d.(*device).native
	if _, err := own.NewBuffer(wgpu.Memory, 1<<50); err == nil {
		t.Error("a buffer has a petabyte")
	}
	if faults.PopScope(native) {
		t.Error("the program's scope has an error of dlx")
	}
	tensor.Close()
}

func TestAWrappedDeviceThatIsDestroyedIsLost(t *testing.T) {
	closeDevice(t, open(t))
	installFaults()
	d := wrapped(t)
	defer closeDevice(t, d)
	native, err := DeviceOf(d)
	if err != nil {
		t.Fatal(err)
	}
	faults.Destroy(native)
	for range 2 {
		if _, err := d.Alloc(t.Context(), 100, core.AllocOptions{}); !errors.Is(err, core.ErrDeviceLost) {
			t.Errorf("Alloc: error %v, want %q", err, core.ErrDeviceLost)
		}
	}
}

// A device of the program may have less workgroup memory than tiles need. Its strided copies then go without them. wgpu-native 29 takes
// shaders with more workgroup memory than the device has, so that this looks at the plans.
func TestAWrappedDeviceWithLittleWorkgroupMemoryUsesNoTiles(t *testing.T) {
	closeDevice(t, open(t))
	installFaults()
	defer faults.LimitGroupMemory(0)
	const least = gpucopy.WGSLGroupMemory
	for _, memory := range []uint32{least - 4, least} {
		faults.LimitGroupMemory(memory)
		program := open(t)
		faults.LimitGroupMemory(0)
		native, err := DeviceOf(program)
		if err != nil {
			t.Fatal(err)
		}
		own, limits, err := wgpu.Wrap(wgpu.Handle(native))
		if err != nil {
			t.Fatal(err)
		}
		if limits.GroupMemory != int64(memory) {
			t.Errorf("the device has %d bytes of workgroup memory, want %d", limits.GroupMemory, memory)
		}
		info := program.Properties()
		d := newDevice(own, info, limits, false) // as if it were a GPU
		if tiles := memory >= least; d.limits.Tiles != tiles {
			t.Errorf("%d bytes of workgroup memory: tiles %v, want %v", memory, d.limits.Tiles, tiles)
		}
		if limitsOf(limits, true).Tiles {
			t.Error("a CPU uses tiles")
		}
		s := &shaders{device: d}
		for i, dtype := range gpucopytest.Types {
			c := gpucopytest.Case{Name: "transpose", Shape: []int64{96, 96}, Src: []int64{1, 96}}
			gpucopytest.Check(t, s, rand.New(rand.NewPCG(1, uint64(i))), d.limits, true, dtype, c)
		}
		s.free()
		closeDevice(t, d)
		closeDevice(t, program)
	}
}
