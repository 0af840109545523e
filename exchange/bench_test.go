package exchange_test

import (
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// BenchmarkShared measures a move that copies nothing, between any two devices of
// this build that can: warm, where the memory is open, and cold, where it is
// opened for the move. The size must not matter.
func BenchmarkShared(b *testing.B) {
	devices := openAll(b, 2)
	for i, from := range devices {
		for j, dst := range devices {
			if i%2 == 1 || i/2 == j/2 && i == j {
				continue // the second of a device is a destination only
			}
			for _, s := range sources(from) {
				for _, bytes := range []int64{4 << 10, 64 << 20} {
					name := fmt.Sprintf("%v-%s-to-%v-%d/%dKiB", from.ID(), s.name, dst.ID(), j%2, bytes>>10)
					src, err := core.Empty(b.Context(), from, core.TypeInt32, []int64{bytes / 4}, s.alloc)
					if err != nil {
						b.Fatal(err)
					}
					benchmarkShared(b, name, src, dst)
					_ = src.Close()
				}
			}
		}
	}
}

func benchmarkShared(b *testing.B, name string, src *core.Tensor, dst core.Device) {
	first, report, err := exchange.To(b.Context(), src, dst, exchange.Options{Copy: exchange.Never})
	if err != nil {
		return // they cannot share
	}
	b.Run("warm/"+report.Mechanism.String()+"/"+name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			t, _, err := exchange.To(b.Context(), src, dst, exchange.Options{Copy: exchange.Never})
			if err != nil {
				b.Fatal(err)
			}
			_ = t.Close()
		}
	})
	_ = first.Close()
	buffer, err := src.Buffer()
	if err != nil {
		b.Fatal(err)
	}
	m := buffer.Memory()
	b.Run("cold/"+report.Mechanism.String()+"/"+name, func(b *testing.B) {
		b.ReportAllocs()
		var fresh, moved [32]*core.Tensor // starting and stopping the clock takes longer than a move
		for i := range b.N {
			if i%len(fresh) == 0 {
				b.StopTimer()
				for k := range fresh {
					if moved[k] != nil {
						_, _ = moved[k].Close(), fresh[k].Close()
					}
					if fresh[k], err = core.Wrap(m, core.Spec{DType: src.DType(), Shape: src.Shape()}); err != nil { // of which nothing is open
						b.Fatal(err)
					}
					moved[k] = nil
				}
				b.StartTimer()
			}
			k := i % len(fresh)
			if moved[k], _, err = exchange.To(b.Context(), fresh[k], dst, exchange.Options{Copy: exchange.Never}); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		for k := range fresh {
			if moved[k] != nil {
				_ = moved[k].Close()
			}
			if fresh[k] != nil {
				_ = fresh[k].Close()
			}
		}
	})
}

// BenchmarkPlan measures the decision alone, between any two devices of this build.
func BenchmarkPlan(b *testing.B) {
	devices := openAll(b, 2)
	for i, from := range devices {
		for j, dst := range devices {
			if i%2 == 1 || j%2 == 1 && i != j-1 {
				continue // the second of a device is a destination only, of the first
			}
			for _, s := range sources(from) {
				src, err := core.Empty(b.Context(), from, core.TypeInt32, []int64{1024}, s.alloc)
				if err != nil {
					b.Fatal(err)
				}
				for _, o := range []exchange.Options{{}, {Copy: exchange.Always}} {
					b.Run(fmt.Sprintf("%v/%v-%s-to-%v-%d", o.Copy, from.ID(), s.name, dst.ID(), j%2), func(b *testing.B) {
						b.ReportAllocs()
						for b.Loop() {
							if _, err := exchange.Plan(src, dst, o); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
				_ = src.Close()
			}
		}
	}
}

// BenchmarkStaged measures a staged copy between two devices beside the plain copy
// of each to or from the host. The slower of these is what a staged copy can reach.
func BenchmarkStaged(b *testing.B) {
	devices := openAll(b, 2)
	const bytes = 64 << 20
	copyOf := func(name string, src *core.Tensor, dst core.Device, o exchange.Options) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				t, _, err := exchange.To(b.Context(), src, dst, o)
				if err != nil {
					b.Fatal(err)
				}
				if err := t.WaitReady(b.Context()); err != nil {
					b.Fatal(err)
				}
				_ = t.Close()
			}
		})
	}
	h := devices[0]
	onHost := numbered(b, h, core.AllocOptions{}, bytes/4)
	defer onHost.Close()
	for i, d := range devices[2:] {
		if i%2 == 1 {
			continue // the second of a device is a destination only
		}
		copyOf(fmt.Sprintf("plain/%v-to-%v", h.ID(), d.ID()), onHost, d, exchange.Options{Only: exchange.Direct})
		src := numbered(b, d, core.AllocOptions{}, bytes/4)
		copyOf(fmt.Sprintf("plain/%v-to-%v", d.ID(), h.ID()), src, h, exchange.Options{Only: exchange.Direct})
		copyOf(fmt.Sprintf("plain/within-%v", d.ID()), src, d, exchange.Options{Copy: exchange.Always})
		for _, dst := range devices[2:] {
			if dst != d {
				copyOf(fmt.Sprintf("staged/%v-to-%v", d.ID(), dst.ID()), src, dst, exchange.Options{Only: exchange.Staged})
			}
		}
		_ = src.Close()
	}
}
