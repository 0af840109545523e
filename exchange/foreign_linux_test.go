//go:build linux && cgo && cuda

package exchange_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// CUmemLocation, CUmemAllocationProp and CUmemAccessDesc, which are those of HIP, too.
type (
	memoryLocation   struct{ kind, id int32 }
	memoryProperties struct {
		kind, handles int32
		at            memoryLocation
		_             [24]byte
	}
	memoryAccess struct {
		at    memoryLocation
		flags int32
	}
)

// mapUnit is what memory is mapped in.
const mapUnit = 2 << 20

// segment maps memory of device 0 to several places side by side, as PyTorch does for its expandable segments. Each can be
// exported, or none. prefix is that of the driver's functions.
func segment(t *testing.T, driver *gpusimtest.Driver, prefix string, n uint64, exportable bool) uintptr {
	t.Helper()
	p := memoryProperties{kind: 1, at: memoryLocation{1, 0}}
	if exportable {
		p.handles = 1 // a descriptor
	}
	var start uint64
	driver.OK(prefix+"MemAddressReserve", &start, n*mapUnit, 0, 0, 0)
	for i := range n {
		var memory uint64
		driver.OK(prefix+"MemCreate", &memory, mapUnit, &p, 0)
		driver.OK(prefix+"MemMap", start+i*mapUnit, mapUnit, 0, memory, 0)
		driver.OK(prefix+"MemRelease", memory)
		driver.OK(prefix+"MemSetAccess", start+i*mapUnit, mapUnit, &memoryAccess{p.at, 3}, 1)
	}
	t.Cleanup(func() {
		for i := range n {
			driver.OK(prefix+"MemUnmap", start+i*mapUnit, mapUnit)
		}
		driver.OK(prefix+"MemAddressFree", start, n*mapUnit)
	})
	return uintptr(start)
}

// Memory that another library has mapped for export is opened by other devices of the card, and other memory is copied. The plan
// is the move.
func TestMemoryOfAnotherLibraryMovesAsPlanned(t *testing.T) {
	foreignMoves(t, core.DeviceCUDA, "cu", func() *gpusimtest.Driver { return gpusimtest.Start(t) })
}

// The same for HIP. Libraries before 7.15 do not count the handle of mapped memory: it is not used.
func TestMemoryOfAnotherLibraryOfHIPMovesAsPlanned(t *testing.T) {
	if os.Getenv("DLX_GPUSIM_HIP_MINOR") == "" {
		for _, minor := range []string{"14", "15"} {
			t.Run("7."+minor, coretest.Child(t, t.Name(), "DLX_GPUSIM_HIP_VERSION=7", "DLX_GPUSIM_HIP_MINOR="+minor))
		}
		return
	}
	foreignMoves(t, core.DeviceROCM, "hip", func() *gpusimtest.Driver { return gpusimtest.StartHIP(t).Driver })
}

func foreignMoves(t *testing.T, api core.DeviceType, prefix string, start func() *gpusimtest.Driver) {
	driver := start()
	mapped, private := segment(t, driver, prefix, 2, true), segment(t, driver, prefix, 1, false)
	devices := openAll(t, 1)
	var from core.Device
	for _, d := range devices {
		if d.ID() == (core.DeviceID{Type: api}) {
			from = d
		}
	}
	if from == nil {
		t.Skipf("the build has no %v", api)
	}
	old := os.Getenv("DLX_GPUSIM_HIP_MINOR") == "14"
	for _, to := range devices {
		if card(to) && to != from {
			continue // no card is of two vendors
		}
		for _, c := range []struct {
			name   string
			p      uintptr
			says   string // why it is not exported
			shared bool   // by devices that share memory that dlx has allocated for export
		}{
			{"whole", mapped, "", true},
			{"a part", mapped + mapUnit + 4096, "", true},
			{"across two allocations", mapped + mapUnit - 4096, "lie in several allocations of another library, of which the first one has 4096 ", false},
			{"not for export", private, "not for handles of the type opaque_fd", false},
		} {
			for _, mode := range []exchange.Copy{exchange.IfNeeded, exchange.Always} {
				t.Run(fmt.Sprintf("%s to %v, %v", c.name, to.ID(), mode), func(t *testing.T) {
					const n = 4096
					m, err := from.(core.PointerImporter).ImportPointer(c.p, n*4, nil)
					if api == core.DeviceROCM && c.p%mapUnit+n*4 > mapUnit {
						coretest.WantError(t, err, core.ErrInvalid, "HIP does not say which memory is mapped: across two allocations")
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					x, err := core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{n}})
					if err != nil {
						t.Fatal(err)
					}
					defer x.Close()
					o := exchange.Options{Copy: mode}
					route, err := exchange.Plan(x, to, o)
					if err != nil {
						t.Fatal(err)
					}
					y, report, err := exchange.To(t.Context(), x, to, o)
					if err != nil {
						t.Fatal(err)
					}
					defer y.Close()
					if route.String() != report.String() {
						t.Errorf("planned: %v\nmoved: %v", route, report)
					}
					opens := promised(from, to, source{alloc: core.AllocOptions{Export: core.HandleOpaqueFD}}) && from != to
					shares := c.shared && !old
					if importer, ok := to.(core.MemoryImporter); ok && c.p == private && api == core.DeviceROCM {
						shares = slices.Contains(importer.ImportTypes(), core.HandleDMABuf) // by its address
					}
					if shares = shares && opens && mode == exchange.IfNeeded; shares != (report.Mechanism == exchange.Map) {
						t.Errorf("to be shared: %v, and the mechanism is %v", shares, report)
					}
					says := c.says
					if old {
						says = "the driver does not export memory of other libraries"
					}
					if opens && !shares && !strings.Contains(report.String(), says) {
						t.Errorf("%q is not said by %v", says, report)
					}
				})
			}
		}
	}
}
