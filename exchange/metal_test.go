package exchange_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/backends/metal/metaltest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// Tensors go between the host and two simulated GPUs of Metal, every way that the planner has.
func TestMetalAndTheHost(t *testing.T) {
	for _, unified := range []bool{false, true} {
		t.Run(fmt.Sprintf("unified=%v", unified), func(t *testing.T) {
			b := metaltest.New(t, unified)
			devices := make([]core.Device, 3)
			for i, open := range []func() (core.Device, error){
				func() (core.Device, error) { return cpu.New().Open(t.Context(), core.CPU) },
				func() (core.Device, error) { return b.Open(t.Context(), core.DeviceID{Type: core.DeviceMetal}) },
				func() (core.Device, error) {
					return b.Open(t.Context(), core.DeviceID{Type: core.DeviceMetal, Index: 1})
				},
			} {
				d, err := open()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
				devices[i] = d
			}
			for _, from := range devices {
				for _, to := range devices {
					for _, turned := range []bool{false, true} {
						moveAndCompare(t, from, to, turned)
					}
				}
				joinOn(t, from)
			}
			if _, within, _ := converting(t, devices[1]); within.Converted != devices[1].ID() {
				t.Errorf("%v converted, want %v", within.Converted, devices[1].ID())
			}
		})
	}
}

// moveAndCompare moves a tensor by every mechanism that is possible, and reads the result.
func moveAndCompare(t *testing.T, from, to core.Device, turned bool) {
	t.Helper()
	const rows, columns = 300, 1000 // so much that a device copies it
	content := coretest.Pattern(rows*columns, 7)
	src := coretest.Keep(t)(core.Empty(t.Context(), from, core.TypeUint8, []int64{rows, columns}, core.AllocOptions{}))
	host := coretest.Keep(t)(core.FromSlice(content, rows, columns))
	if err := from.Copy(t.Context(), nil, src, host); err != nil {
		t.Fatal(err)
	}
	want := content
	if turned {
		src = coretest.Keep(t)(src.Transpose())
		want = make([]byte, 0, len(content))
		for c := range columns {
			for r := range rows {
				want = append(want, content[r*columns+c])
			}
		}
	}
	moved := 0
	for _, only := range []exchange.Mechanism{0, exchange.Alias, exchange.Map, exchange.Peer, exchange.Direct, exchange.Staged} {
		dst, report, err := exchange.To(t.Context(), src, to, exchange.Options{Only: only})
		if err != nil {
			if only == 0 {
				t.Errorf("%v to %v: %v", from.ID(), to.ID(), err)
			}
			continue
		}
		moved++
		got := make([]byte, len(want))
		back := coretest.Keep(t)(core.FromSlice(got, src.Shape()...))
		if err := to.Copy(t.Context(), nil, back, dst); err != nil {
			t.Errorf("%v to %v, %+v: %v", from.ID(), to.ID(), report, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%v to %v, turned %v, mechanism %v: the bytes are wrong", from.ID(), to.ID(), turned, only)
		}
		for _, x := range []*core.Tensor{dst, back} {
			_ = x.Close()
		}
	}
	if moved < 2 { // the best way, and the same by its name
		t.Errorf("%v to %v: %d moves", from.ID(), to.ID(), moved)
	}
	_ = src.Close()
}
