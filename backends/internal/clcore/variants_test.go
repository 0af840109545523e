//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/clcore/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// variant is the first device as if the host could not reach its memory so well.
type variant struct {
	name                 string
	api                  API
	unified, fineGrained bool
	hostKind             bool // what the host reaches is host USM, not shared USM
}

var variants = []variant{
	{name: "memory that the host does not reach", api: OpenCL},
	{name: "unified memory without fine-grained SVM", api: OpenCL, unified: true},
	{name: "fine-grained SVM beside memory of its own", api: OpenCL, fineGrained: true},
	{name: "unified memory with fine-grained SVM", api: OpenCL, unified: true, fineGrained: true},
}

var usmVariants = []variant{
	{name: "device USM alone", api: OneAPI},
	{name: "host USM beside device USM", api: OneAPI, fineGrained: true, hostKind: true},
	{name: "shared USM for all", api: OneAPI, unified: true, fineGrained: true},
}

// open opens the device.
func (v variant) open() (core.Device, error) {
	all, err := list(v.api)
	if err != nil {
		return nil, err
	}
	l := all[0]
	l.unified, l.fineGrained = l.unified && v.unified, l.fineGrained && v.fineGrained
	if l.usm != nil {
		l.usm = interposed()
	}
	if v.hostKind {
		l.visible = driver.USMHost
	}
	l.properties.Features = nil
	l.survey(nil, 0)
	c, s := driver.CreateContext(l.platform, l.handle)
	if err := v.api.check(s, "clCreateContext", "for a test"); err != nil {
		return nil, err
	}
	return openDevice(l, c)
}

// interposed has the functions of the first platform with USM, with interposers. All variants are of this platform.
var interposed = sync.OnceValue(func() *driver.USM {
	all, err := list(OneAPI)
	if err != nil {
		return nil
	}
	faults.InstallUSM(all[0].usm[:])
	return all[0].usm
})

// needDriver ends a test that cannot run.
func needDriver(tb testing.TB, a API) {
	tb.Helper()
	coretest.NeedDriver(tb, a.Backend().Probe(tb.Context()).Reason, map[API]string{
		OpenCL: "pocl-opencl-icd and ocl-icd-libopencl1",
		OneAPI: "a driver with USM (scripts/fetch-newer-drivers.sh .cache/drivers intel)",
	}[a])
}

// On a processor every device is one whose memory the host reaches. The ways that
// others need are held to the same rules here.
func TestConformanceOfOtherDevices(t *testing.T) {
	needDriver(t, OpenCL)
	conform(t, variants[:3]) // the last is what it is
}

func TestConformanceOfOtherUSM(t *testing.T) {
	needDriver(t, OneAPI)
	conform(t, usmVariants[:2]) // the last is what it is
}

func conform(t *testing.T, variants []variant) {
	for i, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			backendtest.Run(t, func(tb testing.TB) core.Device {
				tb.Helper()
				d, err := v.open()
				if err != nil {
					tb.Fatal(err)
				}
				return d
			}, backendtest.Options{Variant: i, Variants: len(variants)})
		})
	}
}
