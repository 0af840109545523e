package flight

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Tensors of all types and of shapes with and without conventions are put on a server and come back, from and to
// devices with and without memory for the host.
func TestPutAndGet(t *testing.T) {
	for _, place := range []struct {
		name   string
		device func(testing.TB) core.Device
	}{{"host", openCPU}, {"device", openRemote}} {
		t.Run(place.name, func(t *testing.T) {
			d := place.device(t)
			s, address := serve(t, ServerOptions{Device: d, BatchBytes: 100})
			c := connect(t, address, ClientOptions{BatchBytes: 64})
			ctx := t.Context()
			dtypes := []core.DType{core.TypeBool}
			for _, typ := range types {
				dtypes = append(dtypes, typ.dtype)
			}
			for _, dtype := range dtypes {
				for _, shape := range [][]int64{{7, 2, 3}, {100}, {1}, {}, {0}, {0, 3}, {3, 0}, {2, 0, 5}, {2, 100}, {1, 1, 1, 2}} {
					name := fmt.Sprint(dtype, shape)
					want := patterned(t, dtype, shape...)
					sent, err := c.Put(ctx, name, want)
					if err != nil {
						t.Fatal(name, err)
					}
					if sent.Bytes != want.NumBytes() {
						t.Errorf("%s: %d bytes were sent", name, sent.Bytes)
					}
					kept, err := s.Tensor(name)
					if err != nil {
						t.Fatal(name, err)
					}
					if kept.DeviceID() != d.ID() {
						t.Errorf("%s is on %v", name, kept.DeviceID())
					}
					wantSame(t, kept, want)
					_ = kept.Close()
					got, r, err := c.Get(ctx, name, d)
					if err != nil {
						t.Fatal(name, err)
					}
					wantSame(t, got, want)
					if r.Bytes != want.NumBytes() || (r.Bytes > 0) != (r.Batches > 0) || r.Time <= 0 {
						t.Errorf("%s: %+v", name, r)
					}
					_ = got.Close()
					if err := c.Delete(ctx, name); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// The program of the server offers a tensor with strides, of which a client gets some rows.
func TestRows(t *testing.T) {
	d := openCPU(t)
	s, address := serve(t, ServerOptions{BatchBytes: 64})
	c := connect(t, address, ClientOptions{})
	base := patterned(t, core.TypeInt16, 5, 40, 6)
	turned := coretest.Keep(t)(base.Permute(1, 2, 0))
	if err := s.Offer("turned", turned); err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, s.Offer("turned", turned), core.ErrExists, "the same name")
	for _, rows := range [][]int64{{0, 40}, {3, 17}, {39, 40}, {5, 5}} {
		got, r, err := c.Get(t.Context(), "turned", d, rows...)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, coretest.Keep(t)(turned.Slice(0, rows[0], rows[1], 1)))
		if want := rows[1] - rows[0]; r.Batches != want { // a row has 60 bytes
			t.Errorf("%d batches for %d rows", r.Batches, want)
		}
		_ = got.Close()
	}
	for _, rows := range [][]int64{{-1, 2}, {2, 1}, {0, 41}, {1}, {1, 2, 3}} {
		_, _, err := c.Get(t.Context(), "turned", d, rows...)
		coretest.WantError(t, err, core.ErrInvalid, fmt.Sprint(rows))
	}
	scalar := patterned(t, core.TypeFloat64)
	if err := s.Offer("scalar", scalar); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.Get(t.Context(), "scalar", d, 0, 1)
	coretest.WantError(t, err, core.ErrInvalid, "rows of a scalar")
	coretest.WantError(t, c.Delete(t.Context(), "scalar"), core.ErrInvalid, "deleting an offer of the program")

	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Info{{"scalar", core.TypeFloat64, []int64{}, 8}, {"turned", core.TypeInt16, []int64{40, 6, 5}, 2400}}
	if fmt.Sprint(list) != fmt.Sprint(want) || !slices.Equal(s.Names(), []string{"scalar", "turned"}) {
		t.Errorf("got %v, want %v", list, want)
	}
	if err := s.Withdraw("turned"); err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, s.Withdraw("turned"), core.ErrInvalid, "withdrawn")
	_, _, err = c.Get(t.Context(), "turned", d)
	coretest.WantError(t, err, core.ErrInvalid, "getting what was withdrawn")
	_, err = s.Tensor("turned")
	coretest.WantError(t, err, core.ErrInvalid, "withdrawn")
}

// What Flight cannot express is refused with what to do.
func TestRefusedTensors(t *testing.T) {
	s, address := serve(t, ServerOptions{Device: openCPU(t), Limits: Limits{Message: 1000}})
	c := connect(t, address, ClientOptions{Message: 1000})
	small := coretest.Keep(t)(core.Empty(t.Context(), openCPU(t), core.TypeBFloat16, []int64{1}, core.AllocOptions{}))
	coretest.WantError(t, s.Offer("x", small), core.ErrDType, "offering bfloat16")
	_, err := c.Put(t.Context(), "x", small)
	coretest.WantError(t, err, core.ErrDType, "putting bfloat16")
	wide := patterned(t, core.TypeFloat32, 1, 251)
	coretest.WantError(t, s.Offer("x", wide), core.ErrLayout, "offering a long row")
	_, err = c.Put(t.Context(), "x", wide)
	coretest.WantError(t, err, core.ErrLayout, "putting a long row")
	for _, rows := range []int64{0, 1} { // the server has the same limit for what it takes
		long := patterned(t, core.TypeFloat32, rows, 251)
		coretest.WantError(t, s.Offer("x", long), core.ErrLayout, "offering a long row")
		_, err = connect(t, address, ClientOptions{}).Put(t.Context(), "x", long)
		coretest.WantError(t, err, core.ErrInvalid, "putting a long row")
	}
	fits := patterned(t, core.TypeFloat32, 1, 250)
	for _, name := range []string{"", "\xff", string(make([]byte, 1025))} {
		coretest.WantError(t, s.Offer(name, fits), core.ErrInvalid, "a name")
		_, err = c.Put(t.Context(), name, fits)
		coretest.WantError(t, err, core.ErrInvalid, "a name")
	}
	if _, err := c.Put(t.Context(), "fits", fits); err != nil {
		t.Fatal(err)
	}
	_, err = c.Put(t.Context(), "fits", fits)
	coretest.WantError(t, err, core.ErrExists, "the same name")
	if got := s.Names(); len(got) != 1 {
		t.Error(got)
	}
}

// A client that takes less gives an error, and nothing stays open.
func TestLimitOfTheClient(t *testing.T) {
	d := openCPU(t)
	s, address := serve(t, ServerOptions{})
	c := connect(t, address, ClientOptions{TensorBytes: 99})
	if err := s.Offer("x", patterned(t, core.TypeUint8, 10, 10)); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.Get(t.Context(), "x", d)
	coretest.WantError(t, err, core.ErrOutOfMemory, "a large tensor")
	got, _, err := c.Get(t.Context(), "x", d, 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Get(ctx, "x", d); err != context.Canceled {
		t.Error(err)
	}
	if _, err := c.List(ctx); err != context.Canceled {
		t.Error(err)
	}
}
