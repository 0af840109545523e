//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/backends/vulkan/internal/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/vkqueues"
)

// TestMain puts the functions that can be made to fail in front of the driver's, and
// has coretest count what is left open.
func TestMain(m *testing.M) {
	if proc, err := driver.SystemLoader(); err == nil {
		driver.UseLoader(faults.Loader(proc))
	}
	coretest.Main(m)
}

// What the tests of all backends have in common, by short names.
var (
	keep            = coretest.Keep
	row             = coretest.Row
	pattern         = coretest.Pattern
	put             = coretest.Put
	get             = coretest.Get
	wantError       = coretest.WantError
	descriptors     = coretest.Descriptors
	wantDescriptors = coretest.WantDescriptors
)

// option changes the options of a backend, also those that programs cannot set.
type option = func(*options)

func validation(o *options) { o.validation = true }

// newWith is New with such options.
func newWith(opts ...option) core.Backend {
	o := Options{}.withEnvironment()
	for _, set := range opts {
		set(&o)
	}
	return newBackend(o)
}

// validated returns the options of a backend with the validation layer. If only the layer is missing, and tests may
// be skipped for lack of a driver, they run without it, and say so.
func validated(t testing.TB, opts ...option) []option {
	t.Helper()
	with := append([]option{validation}, opts...)
	missing := newWith(with...).Probe(context.Background()).Reason
	if missing != "" && coretest.WithoutDrivers() && newWith(opts...).Probe(context.Background()).Available {
		t.Log("without the validation layer: " + missing)
		return opts
	}
	coretest.NeedDriver(t, missing, "mesa-vulkan-drivers and vulkan-validationlayers")
	return with
}

// open opens the first device with the validation layer, whose messages fail the test.
func open(t testing.TB, opts ...option) core.Device {
	t.Helper()
	b := newWith(validated(t, opts...)...)
	noMessages(t)
	d, err := b.Open(context.Background(), core.DeviceID{Type: core.DeviceVulkan})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// alsoHarmless are parts of messages that do not mean an error in one test. It sets them while it opens the device.
var alsoHarmless []string

// noMessages fails the test if the validation layer says anything from now on.
func noMessages(t testing.TB) {
	harmless := append(slices.Clone(vkqueues.Harmless), alsoHarmless...)
	before, _ := Messages(0)
	t.Cleanup(func() {
		after, texts := Messages(before)
		for _, text := range texts {
			if slices.ContainsFunc(harmless, func(part string) bool { return strings.Contains(text, part) }) {
				t.Log(text)
				continue
			}
			t.Errorf("the validation layer says: %s", text)
		}
		if len(texts) == 0 && after != before {
			t.Errorf("the validation layer gave %d messages", after-before)
		}
	})
}

// opened is open, for tests that leave closing to the end.
func opened(t testing.TB, opts ...option) core.Device {
	t.Helper()
	d := open(t, opts...)
	t.Cleanup(func() {
		var e *core.Error
		if err := d.Close(); err != nil && !(errors.As(err, &e) && e.Call == "VK_LAYER_KHRONOS_validation") { // noMessages judges those
			t.Error(err)
		}
	})
	return d
}

// openedWith is opened, for tests of what not every driver can do. TestWhatTheDriversForTheCPUOffer names who must.
func openedWith(t testing.TB, need core.Capabilities, opts ...option) core.Device {
	t.Helper()
	d := opened(t, opts...)
	p := d.Properties()
	if err := p.Require(need, t.Name()); err != nil {
		t.Skip(err)
	}
	return d
}

func inner(d core.Device) *device { return d.(*device) }
