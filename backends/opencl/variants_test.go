//go:build opencl && linux && cgo

package opencl

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// variant is the first device as if the host could not reach its memory so well.
type variant struct {
	name                 string
	unified, fineGrained bool
}

var variants = []variant{
	{name: "memory that the host does not reach"},
	{name: "unified memory without fine-grained SVM", unified: true},
	{name: "fine-grained SVM beside memory of its own", fineGrained: true},
	{name: "unified memory with fine-grained SVM", unified: true, fineGrained: true},
}

// open opens the device.
func (v variant) open() (core.Device, error) {
	all, err := list()
	if err != nil {
		return nil, err
	}
	l := all[0]
	l.unified, l.fineGrained = l.unified && v.unified, l.fineGrained && v.fineGrained
	l.properties.Features = nil
	l.survey(nil, 0)
	c, s := driver.CreateContext(l.platform, l.handle)
	if err := check(s, "clCreateContext", "for a test"); err != nil {
		return nil, err
	}
	return openDevice(l, c)
}

// needDriver ends a test that cannot run.
func needDriver(tb testing.TB) {
	tb.Helper()
	coretest.NeedDriver(tb, New().Probe(tb.Context()).Reason, "pocl-opencl-icd and ocl-icd-libopencl1")
}

// On a processor every device is one whose memory the host reaches. The ways that
// others need are held to the same rules here.
func TestConformanceOfOtherDevices(t *testing.T) {
	needDriver(t)
	for i, v := range variants[:3] { // the last is what it is
		t.Run(v.name, func(t *testing.T) {
			backendtest.Run(t, func(tb testing.TB) core.Device {
				tb.Helper()
				d, err := v.open()
				if err != nil {
					tb.Fatal(err)
				}
				return d
			}, backendtest.Options{Variant: i, Variants: 3})
		})
	}
}
