package parts

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Look reads the elements of a tensor as [Load] returns them. how is the way: "copy"
// by device d, "stream" on a stream of it, "to" and "to_values" by exchange.To, "address"
// and "values" where it lies.
func Look(ctx context.Context, d, host core.Device, on core.Stream, t *core.Tensor, how string) ([]byte, error) {
	switch how {
	case "copy", "stream":
		size, err := t.DType().Size(t.NumElements(), t.Padded())
		if err != nil {
			return nil, err
		}
		b := Bytes(int64(len(how))&1, size)
		to, err := Over(b, core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded})
		if err != nil {
			return nil, err
		}
		defer to.Close()
		if how == "copy" {
			on = nil
		}
		if err := d.Copy(ctx, on, to, t); err != nil {
			return nil, err
		}
		return Load(ctx, to)
	case "to":
		to, _, err := exchange.To(ctx, t, host, exchange.Options{})
		if err != nil {
			return nil, err
		}
		defer to.Close()
		return Load(ctx, to)
	case "to_values":
		to, _, err := exchange.To(ctx, t, host, exchange.Options{Copy: exchange.Always})
		if err != nil {
			return nil, err
		}
		defer to.Close()
		return Door(to)
	case "values":
		if b, err := Door(t); err == nil {
			return b, nil
		}
	}
	return Load(ctx, t)
}

// Expect is [Look] for what must have this CRC-32.
func Expect(ctx context.Context, d core.Device, t *core.Tensor, how string, sum uint32) error {
	host := d
	if !d.ID().Type.HostAccessible() {
		return expectOn(ctx, d, t, how, sum)
	}
	got, err := Look(ctx, d, host, nil, t, how)
	return differs(got, err, t, sum)
}

// expectOn opens the host, which a look from another device may go through.
func expectOn(ctx context.Context, d core.Device, t *core.Tensor, how string, sum uint32) error {
	host, err := openHost(ctx)
	if err != nil {
		return err
	}
	defer host.Close()
	var on core.Stream
	if how == "stream" {
		if on, err = d.NewStream(ctx); err != nil {
			return err
		}
		defer on.Close()
	}
	got, err := Look(ctx, d, host, on, t, how)
	return differs(got, err, t, sum)
}

func differs(got []byte, err error, t *core.Tensor, sum uint32) error {
	if err != nil {
		return err
	}
	if s := crc32.ChecksumIEEE(got); s != sum {
		if len(got) > 64 {
			got = got[:64]
		}
		return fmt.Errorf("WRONG BYTES in %v: %x..., CRC-32 %#x, must be %#x", t, got, s, sum)
	}
	return nil
}

// Reads is [Reader] for what must have this CRC-32; it ends the program if it has not.
func Reads(t *core.Tensor, after time.Duration, sum uint32) {
	err := Reader(t, after, func(got []byte, err error) {
		if err := differs(got, err, t, sum); err != nil {
			panic(err)
		}
	})
	if err != nil {
		fmt.Println(err)
	}
}

// Fill copies row-major elements from memory of Go into t, and lets that go at once.
func Fill(ctx context.Context, d core.Device, on core.Stream, t *core.Tensor, b []byte) error {
	from, err := Over(b, core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded})
	if err != nil {
		return err
	}
	defer from.Close()
	return d.Copy(ctx, on, t, from)
}

// PlanAndRun is exchange.Plan with the words of the plan, and its Run.
func PlanAndRun(ctx context.Context, src *core.Tensor, d core.Device, o exchange.Options) (*core.Tensor, exchange.Report, error) {
	route, err := exchange.Plan(src, d, o)
	if err != nil {
		return nil, exchange.Report{}, err
	}
	_ = route.String()
	return route.Run(ctx)
}

// ToAll is exchange.ToAll with a variable for each result and each report.
func ToAll(ctx context.Context, srcs []*core.Tensor, d core.Device, o exchange.Options, results []**core.Tensor, reports []*exchange.Report) error {
	all, told, err := exchange.ToAll(ctx, srcs, d, o)
	for i := range all {
		*results[i], *reports[i] = all[i], told[i]
	}
	return err
}

// Slice is a view that nobody closes, for the programs that are printed.
func Slice(t *core.Tensor, axis int, start, stop, step int64) *core.Tensor {
	v, err := t.Slice(axis, start, stop, step)
	if err != nil {
		fmt.Println(err)
	}
	return v
}

// Ended is a context that has ended.
func Ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Within is a context that ends after a while.
func Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	time.AfterFunc(time.Minute, cancel)
	return ctx
}
