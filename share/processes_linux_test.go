package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// childDevices sends a tensor of each kind of memory of each device.
const childDevices = "devices"

// devices opens all devices of the build that have a driver. The caller closes them.
func devices(ctx context.Context) (list []core.Device, err error) {
	for _, b := range all.New().Backends() {
		if !b.Probe(ctx).Available {
			continue
		}
		found, err := b.Devices(ctx)
		if err != nil {
			return list, err
		}
		for _, p := range found {
			d, err := b.Open(ctx, p.ID)
			if err != nil {
				return list, err
			}
			list = append(list, d)
		}
	}
	return list, nil
}

// label names a kind of memory.
func label(d core.Device, t core.HandleType) string { return fmt.Sprintf("%v as %v", d.ID(), t) }

// exports are the handle types of memory of a device, and 0 for memory that is not for export.
func exports(d core.Device) []core.HandleType {
	list := []core.HandleType{0}
	if e, ok := core.As[core.MemoryExporter](d); ok {
		list = append(list, e.ExportTypes()...)
	}
	return list
}

const words = 3000

// sendDevices is the other process of TestDevicesOfTwoProcesses.
func sendDevices(connect func([]core.Device) (*Conn, error)) error {
	ctx := context.Background()
	list, err := devices(ctx)
	if err != nil {
		return err
	}
	c, err := connect(list)
	if err != nil {
		return err
	}
	for i, d := range list {
		for _, t := range exports(d) {
			x, err := core.Empty(ctx, d, core.TypeInt32, []int64{words}, core.AllocOptions{Export: t})
			if err != nil {
				return err
			}
			y, err := core.FromSlice(slices.Repeat([]int32{int32(i)}, words), words)
			if err == nil {
				err = d.Copy(ctx, nil, x, y)
			}
			if err == nil {
				_, err = c.SendLabeled(ctx, x, label(d, t))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", label(d, t), err)
			}
			y.Close()
			x.Close() // the connection keeps it
		}
	}
	if err := c.WaitReleased(ctx); err != nil {
		return err
	}
	_ = c.Close()
	for _, d := range slices.Backward(list) {
		if err := d.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Memory of each device of one process is used by the same device of another one. Where that opens
// it, nothing is copied.
func TestDevicesOfTwoProcesses(t *testing.T) {
	list, err := devices(t.Context())
	t.Cleanup(func() {
		for _, d := range slices.Backward(list) {
			if err := d.Close(); err != nil {
				t.Errorf("closing %v: %v", d.ID(), err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := start(t, childDevices, Options{Devices: list})
	for i, d := range list {
		for _, h := range exports(d) {
			x, r, err := c.Receive(t.Context(), d)
			if err != nil {
				t.Fatalf("%s: %v", label(d, h), err)
			}
			if r.Label != label(d, h) {
				t.Fatalf("%q arrives, want %q", r.Label, label(d, h))
			}
			if shares := h == core.HandleMemFD || h == core.HandleOpaqueFD; shares && (r.Mechanism != exchange.Map || r.BytesCopied != 0 || !r.Opened) {
				t.Errorf("%s: %v", r.Label, r)
			}
			got := make([]int32, words)
			y, err := core.FromSlice(got, words)
			if err == nil {
				err = d.Copy(t.Context(), nil, y, x)
			}
			if err != nil {
				t.Fatalf("%s: %v", r.Label, err)
			}
			y.Close()
			x.Close()
			if slices.Min(got) != int32(i) || slices.Max(got) != int32(i) {
				t.Errorf("%s: elements from %d to %d, want %d", r.Label, slices.Min(got), slices.Max(got), i)
			}
		}
	}
	if _, _, err := c.Receive(t.Context(), nil); !errors.Is(err, io.EOF) {
		t.Errorf("after all tensors: %v", err)
	}
	if len(list) == 0 {
		t.Error("there is no device")
	}
	_ = c.Close()
}
