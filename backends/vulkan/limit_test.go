//go:build vulkan && linux && cgo && !race && !asan

package vulkan

import (
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// limitedVariable says how many MB of room a process of the test binary leaves itself before it opens a device.
const limitedVariable = "DLX_TEST_LIMITED"

// A driver for the CPU may fail where it has no room, but ends no process.
func TestADriverWithoutRoom(t *testing.T) {
	room := os.Getenv(limitedVariable)
	if room == "" {
		_ = open(t).Close()
		for mb := 1; mb <= 32; mb += 3 {
			coretest.Child(t, t.Name(), limitedVariable+"="+strconv.Itoa(mb))(t)
		}
		return
	}
	mb, err := strconv.ParseInt(room, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	i, err := driver.NewInstance(false)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	all, err := i.Physicals()
	if err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	if all[0].Kind != driver.CPU {
		t.Skip("the device is no processor")
	}
	// Go ends the process where it has no room for a sample of its own.
	runtime.MemProfileRate = 0
	debug.SetGCPercent(-1)
	end := dltest.LimitMemory(t, mb<<20)
	d, err := driver.NewDevice(all[0])
	end()
	if err == nil {
		d.Close()
	} else if typed := (*core.Error)(nil); !errors.As(err, &typed) {
		t.Errorf("error %v is no *core.Error", err)
	}
}
