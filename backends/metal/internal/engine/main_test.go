package engine

import (
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/backends/metal/internal/fake"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// What the tests of all backends have in common, by short names.
var (
	keep    = coretest.Keep
	row     = coretest.Row
	pattern = coretest.Pattern
	put     = coretest.Put
	get     = coretest.Get
)

// machine makes a fake Metal, and the backend over it. When the test ends, no rule may be broken and nothing may be left.
func machine(tb testing.TB, c fake.Config) (*fake.Driver, *Backend) {
	tb.Helper()
	c.Seed = uint64(time.Now().UnixNano())
	tb.Logf("the machine is %+v", c)
	v := fake.New(c)
	tb.Cleanup(func() {
		// A stream's goroutine drops the stream's shared event a little after the last work is done. By then the test may have
		// ended.
		for end := time.Now().Add(5 * time.Second); len(v.Live()) > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		for _, m := range v.Check() {
			tb.Error(m)
		}
	})
	return v, New(func() (driver.Driver, error) { return v, nil })
}

// open opens a device, which the caller closes.
func open(tb testing.TB, b *Backend, index int32) core.Device {
	tb.Helper()
	d, err := b.Open(tb.Context(), core.DeviceID{Type: core.DeviceMetal, Index: index})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// device1 opens the first device of a machine, and closes it when the test has closed all that is on it.
func device1(tb testing.TB, c fake.Config) (*device, *fake.Driver) {
	tb.Helper()
	v, b := machine(tb, c)
	d := open(tb, b, 0)
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d.(*device), v
}

// variants are machines that differ in what they let the host do, and in how late the GPU is.
var variants = map[string]fake.Config{
	"discrete":         {},
	"unified and slow": {Unified: true, Delay: 300 * time.Microsecond},
}
