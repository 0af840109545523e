package cudalike_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

func kernels(cudalike.Description) []string { return []string{"gather"} }

// rocm has the facts of an API that differs from CUDA as much as it may: DLPack has no type for its managed memory,
// and it has no streams of threads.
var rocm = cudalike.New(newFake("rocm"), cudalike.Facts{
	API: "HIP", Visible: "whether HIP_VISIBLE_DEVICES hides it", Device: core.DeviceROCM, Host: core.DeviceROCMHost, ClockStep: time.Microsecond,
	Kernels: kernels, Limits: gpucopy.CUDALimits(),
})

// other is another such API in the same program.
var other = cudalike.New(newFake("ext_dev"), cudalike.Facts{
	API: "other", Device: core.DeviceExt, Host: core.DeviceROCMHost, ClockStep: time.Microsecond, Kernels: kernels, Limits: gpucopy.CUDALimits(),
})

func open(tb testing.TB, b *cudalike.Backend, index int32) core.Device {
	d, err := b.Open(tb.Context(), core.DeviceID{Type: b.Device, Index: index})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device { return open(tb, rocm, 0) },
		backendtest.Options{Peer: func(tb testing.TB) core.Device { return open(tb, rocm, 1) }})
}

// The devices and events of two backends have the same Go types, but do not work together.
func TestBackendsAreApart(t *testing.T) {
	a, b := open(t, rocm, 0), open(t, other, 0)
	s, err := a.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	on, err := b.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := on.Record()
	if err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, s.Wait(e), core.ErrNotSupported, "an event of another backend")
	coretest.WantError(t, rocm.OpenTimer(t.Context(), b, new(cudalike.Timer)), core.ErrDevice, "a timer on another backend")
	coretest.WantError(t, a.(core.PeerCopier).CanPeer(b), core.ErrDevice, "a peer of another backend")
	if err := errors.Join(s.Close(), on.Close(), a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

func TestTexts(t *testing.T) {
	d := open(t, rocm, 0)
	defer d.Close()
	_, err := d.Alloc(t.Context(), 1, core.AllocOptions{Type: core.DeviceCUDAManaged})
	coretest.WantError(t, err, core.ErrNotSupported, "memory of another API")
	if want := "this device has [rocm rocm_host]"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	if p := d.Properties(); p.Driver != "HIP 1.2" {
		t.Errorf("the driver is %q", p.Driver)
	}
}
