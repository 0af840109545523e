//go:build cuda && linux && cgo

package triton

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// openedCard is memory that the fake server opened by its handle.
type openedCard struct {
	d core.Device
	t *core.Tensor
}

func (o *openedCard) read(offset, size int64) ([]byte, error) {
	part, err := o.t.Slice(0, offset, offset+size, 1)
	if err != nil {
		return nil, err
	}
	defer part.Close()
	return core.ToSlice[byte](context.Background(), part)
}

func (o *openedCard) write(offset int64, p []byte) error {
	part, err := o.t.Slice(0, offset, offset+int64(len(p)), 1)
	if err != nil {
		return err
	}
	defer part.Close()
	src, err := core.FromSlice(p)
	if err != nil {
		return err
	}
	defer src.Close()
	return o.d.Copy(context.Background(), nil, part, src)
}

func (o *openedCard) close() { o.t.Close() }

// card0 opens the simulated card, and lets the fake server open memory of it.
func card0(t *testing.T, f *fakeServer) core.Device {
	t.Helper()
	b := cuda.New()
	coretest.NeedDriver(t, b.Probe(t.Context()).Reason, "the driver of a card, or name the simulated one (make gpusim) as scripts/software-drivers.sh does")
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	f.openCard = func(handle []byte, device, size int64) (cardMemory, error) {
		if device != int64(d.ID().Index) || len(handle) != cudaHandleSize {
			return nil, errors.New("failed to open CUDA IPC handle")
		}
		h, err := backendkit.NewIPCHandle(core.VendorNVIDIA, handle)
		if err != nil {
			return nil, err
		}
		defer h.Close()
		m, err := d.(core.MemoryImporter).ImportMemory(context.Background(), core.ExternalMemory{Handle: h, Size: size, Length: size, DeviceUUID: d.Properties().UUID})
		if err != nil {
			return nil, err
		}
		x, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})
		if err != nil {
			m.Free()
			return nil, err
		}
		return &openedCard{d, x}, nil
	}
	return d
}

// dialCard is like dial. The client is closed before the device.
func dialCard(t *testing.T, protocol string) (*fakeServer, *Client, core.Device) {
	t.Helper()
	f := newFake(t)
	d := card0(t, f)
	return f, dial(t, f, protocol, Options{CUDA: true, Inline: 100}), d
}

// Tensors on a card travel as memory of the card: those of EmptyOn without a copy, others with one within the card.
func TestMemoryOfACard(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f, c, d := dialCard(t, protocol)
		p := coretest.Pattern(3000, 5)
		for name, e := range map[string]struct {
			make   func() (*core.Tensor, error)
			copied int64
			reason string
		}{
			"EmptyOn": {func() (*core.Tensor, error) { return c.EmptyOn(t.Context(), d, core.TypeUint8, []int64{3000}) }, 0, ""},
			"plain": {func() (*core.Tensor, error) {
				return core.Empty(t.Context(), d, core.TypeUint8, []int64{3000}, core.AllocOptions{})
			}, 3000, "not of Client.EmptyOn"},
			"VMM": {func() (*core.Tensor, error) {
				return core.Empty(t.Context(), d, core.TypeUint8, []int64{3000}, core.AllocOptions{Export: core.HandleOpaqueFD})
			}, 3000, "no descriptors of virtual memory"},
		} {
			t.Run(name, func(t *testing.T) {
				x := coretest.Keep(t)(e.make())
				coretest.Put(t, d, x, p)
				for range 2 {
					r := infer(t, c, "identity", InferOptions{Outputs: []Output{{Name: "OUT", Size: 3000, Device: d}}}, map[string]*core.Tensor{"IN": x})
					wantReport(t, r, "IN", SharedCUDA, e.copied, e.reason)
					wantReport(t, r, "OUT", SharedCUDA, 0, "")
					y := r.Outputs["OUT"]
					if y.Device() != d || !bytes.Equal(coretest.Get(t, d, y), p) {
						t.Fatal("other bytes arrived on", y)
					}
					r.Close()
				}
			})
		}
		if f.registers != 2 {
			t.Errorf("regions were registered %d times, and at most two places were in use at once", f.registers)
		}
		// An output on the card that is asked for on the host goes through memory of the host.
		x := coretest.Keep(t)(c.EmptyOn(t.Context(), d, core.TypeUint8, []int64{3000}))
		coretest.Put(t, d, x, p)
		r := infer(t, c, "identity", InferOptions{Outputs: []Output{{Name: "OUT", Size: 3000}}}, map[string]*core.Tensor{"IN": x})
		wantReport(t, r, "OUT", Shared, 0, "")
		if got, err := core.Values[byte](r.Outputs["OUT"]); err != nil || !slices.Equal(got, p) {
			t.Fatal("other bytes arrived", err)
		}
	})
}

// A server without a card gets the bytes through memory of the host, and the report says why.
func TestServerWithoutACard(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f, c, d := dialCard(t, protocol)
		f.openCard = nil
		p := coretest.Pattern(3000, 5)
		x := coretest.Keep(t)(c.EmptyOn(t.Context(), d, core.TypeUint8, []int64{3000}))
		coretest.Put(t, d, x, p)
		for range 2 {
			r := infer(t, c, "identity", InferOptions{Outputs: []Output{{Name: "OUT", Size: 3000, Device: d}}}, map[string]*core.Tensor{"IN": x})
			in, out := report(t, r, "IN"), report(t, r, "OUT")
			if in.Mechanism != Shared || in.BytesCopied != 3000 || !strings.Contains(in.Reason, "no card") {
				t.Fatal(in)
			}
			if out.Mechanism != Shared || out.BytesCopied == 0 || !strings.Contains(out.Reason, "no card") || r.Outputs["OUT"].Device() != d {
				t.Fatal(out)
			}
			if !bytes.Equal(coretest.Get(t, d, r.Outputs["OUT"]), p) {
				t.Fatal("other bytes arrived")
			}
			r.Close()
		}
	})
}

// Memory of a card is freed with the client if the server has closed it, and its devices can be closed.
func TestCardRegionsEnd(t *testing.T) {
	f, c, d := dialCard(t, "grpc")
	x := coretest.Keep(t)(c.EmptyOn(t.Context(), d, core.TypeUint8, []int64{3000}))
	infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x}).Close()
	if f.left() != 1 {
		t.Fatal(f.left())
	}
	closeClient(t, f, c)
	if err := d.Close(); err == nil {
		t.Fatal("a device was closed while its memory was in use")
	}
	x.Close()
	if n := liveRegions.Load(); n != 0 {
		t.Fatal(n)
	}
	host, err := c.EmptyOn(t.Context(), d, core.TypeUint8, []int64{1})
	if host != nil || err == nil {
		t.Fatal("a closed client gave memory")
	}
}

// Devices without interprocess handles of CUDA are refused.
func TestOtherDevicesHaveNoSuchMemory(t *testing.T) {
	f := newFake(t)
	c := dial(t, f, "grpc", Options{CUDA: true})
	d := coretest.OpenSimulated(t, coretest.Options{})
	_, err := c.EmptyOn(t.Context(), d, core.TypeUint8, []int64{1})
	coretest.WantError(t, err, core.ErrNotSupported, "a device of another API")
	_, err = c.EmptyOn(t.Context(), nil, core.TypeUint8, []int64{1})
	coretest.WantError(t, err, core.ErrInvalid, "no device")
}
