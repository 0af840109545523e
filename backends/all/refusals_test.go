package all

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// A device refuses the buffer of a tensor that is not its own, and says whose it is and what to do.
func TestARefusedBufferIsNamedWithWhatToDo(t *testing.T) {
	slice, err := core.FromSlice([]byte{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	defer slice.Close()
	for _, b := range New().Backends() {
		if coretest.LeavesOut(t, b.Probe(t.Context()).Reason, "a driver for "+b.Name()) {
			continue
		}
		list, err := b.Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var pair [2]core.Device
		for i := range pair {
			d, err := b.Open(t.Context(), list[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			pair[i] = d
		}
		d := pair[0]
		mine := coretest.Row(t, pair[1], 3, core.AllocOptions{})
		stranger, err := core.Wrap(core.Memory{ID: d.ID(), Handle: 4096, Size: 3}, core.Spec{DType: core.TypeUint8, Shape: []int64{3}})
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		says := map[*core.Tensor]string{slice: "core.FromSlice", mine: "opened another time", stranger: "import it by ImportPointer"}
		if d.ID() == core.CPU {
			says[stranger] = "core.FromSlice"
		}
		for x, says := range says {
			b, err := x.Buffer()
			if err != nil {
				t.Fatal(err)
			}
			check := func(call string, err error) {
				coretest.WantError(t, err, core.ErrDevice, call)
				if err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("%v: %q does not say %q", d.ID(), err, says)
				}
			}
			if e, ok := core.As[core.MemoryExporter](d); ok {
				_, err := e.ExportMemory(b, e.ExportTypes()[0])
				check("ExportMemory", err)
				check("EndExport", e.EndExport(b))
				if c, ok := e.(backendkit.ExportTrier); ok {
					check("TryExport", c.TryExport(b, e.ExportTypes()[0]))
				}
			}
			if v, ok := core.As[core.HostViewer](d); ok {
				_, err := v.HostView(t.Context(), b)
				check("HostView", err)
			}
		}
		other, err := pair[1].NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		y := coretest.Row(t, d, 3, core.AllocOptions{})
		err = d.Copy(t.Context(), other, y, slice)
		coretest.WantError(t, err, core.ErrDevice, "Copy by a stream of another device")
		if err != nil && !strings.Contains(err.Error(), "NewStream") {
			t.Errorf("%v: %q does not say what to do", d.ID(), err)
		}
	}
}
