//go:build cuda && linux && cgo

package cuda

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// With the simulator, the results are the cost of dlx itself. They say nothing about a card.

// BenchmarkAlloc allocates memory that is free in the pool.
func BenchmarkAlloc(b *testing.B) {
	d := opened(b)
	s := newStream(b, d)
	for _, kind := range memoryKinds {
		for _, o := range []core.AllocOptions{{Type: kind}, {Type: kind, Stream: s}} {
			b.Run(fmt.Sprintf("%v/stream=%v", kind, o.Stream != nil), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m, err := d.Alloc(b.Context(), 1<<20, o)
					if err != nil {
						b.Fatal(err)
					}
					m.Free()
				}
			})
		}
	}
}

// BenchmarkCopy compares copies on a stream between types of memory with the driver's own function. Each waits once
// for 16 copies.
func BenchmarkCopy(b *testing.B) {
	const copies = 16
	d := opened(b)
	s := newStream(b, d)
	c := libraryOf(b, d).context
	for _, size := range []int64{4096, 32 << 20} {
		card := row(b, d, size, core.AllocOptions{})
		for _, x := range []struct {
			name     string
			dst, src *core.Tensor
		}{
			{"pinned to card", card, row(b, d, size, core.AllocOptions{Type: core.DeviceCUDAHost})},
			{"card to pinned", row(b, d, size, core.AllocOptions{Type: core.DeviceCUDAHost}), card},
			{"card to card", row(b, d, size, core.AllocOptions{}), card},
			{"pageable to card", card, keep(b)(core.FromSlice(make([]byte, size)))},
			{"card to pageable", keep(b)(core.FromSlice(make([]byte, size))), card},
		} {
			run := func(who string, move func() error) {
				b.Run(fmt.Sprintf("%s/%d/%s", x.name, size, who), func(b *testing.B) {
					b.SetBytes(copies * size)
					for b.Loop() {
						for range copies {
							if err := move(); err != nil {
								b.Fatal(err)
							}
						}
						if err := s.Synchronize(b.Context()); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			run("dlx", func() error { return d.Copy(b.Context(), s, x.dst, x.src) })
			dst, src := address(b, x.dst), address(b, x.src)
			run("driver", func() error { return failed(statusOf(c.Copy(dst, src, size, s.Native(), 0))) })
		}
	}
}

// address returns the address of a tensor.
func address(b *testing.B, x *core.Tensor) uintptr {
	b.Helper()
	p, err := x.Address()
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkStrided compares strided copies within the device: by rectangular commands and by kernels.
func BenchmarkStrided(b *testing.B) {
	const n = 2048
	d := opened(b)
	matrix := keep(b)(core.Empty(b.Context(), d, core.TypeFloat32, []int64{n, n}, core.AllocOptions{}))
	for _, x := range []struct {
		name string
		src  *core.Tensor
	}{
		{"turned", keep(b)(matrix.Transpose())},
		{"every other column", keep(b)(matrix.Slice(1, 0, n/2, 2))},
		{"half of each row", keep(b)(matrix.Slice(1, 0, n/2, 1))},
		{"every other row", keep(b)(matrix.Slice(0, 0, n/2, 2))},
	} {
		dst := keep(b)(core.Empty(b.Context(), d, core.TypeFloat32, x.src.Shape(), core.AllocOptions{}))
		b.Run(x.name, func(b *testing.B) {
			b.SetBytes(dst.NumBytes())
			for b.Loop() {
				if err := d.Copy(b.Context(), nil, dst, x.src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEvent makes one stream wait for another.
func BenchmarkEvent(b *testing.B) {
	d := opened(b)
	s, other := newStream(b, d), newStream(b, d)
	b.ReportAllocs()
	for b.Loop() {
		e, err := s.Record()
		if err != nil {
			b.Fatal(err)
		}
		if err := other.Wait(e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWait measures how late the host learns that work has ended which takes a known
// time, by an event of dlx and by the driver's own call. The work is the host's, in its turn on
// the stream, so that its end is known. The driver's call holds its thread.
func BenchmarkWait(b *testing.B) {
	d := opened(b)
	s := newStream(b, d)
	c := libraryOf(b, d).context
	waits := map[string]func() error{
		"driver": func() error { return failed(c.Synchronize(s.Native())) },
		"dlx": func() error {
			e, err := s.Record()
			if err != nil {
				return err
			}
			return e.Wait(b.Context())
		},
	}
	for _, work := range []time.Duration{10 * time.Microsecond, 40 * time.Microsecond, 160 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		for _, who := range []string{"driver", "dlx"} {
			b.Run(fmt.Sprintf("%v/%s", work, who), func(b *testing.B) {
				var ended time.Time
				var late []time.Duration
				for b.Loop() {
					if err := failed(c.LaunchHostFunc(s.Native(), func() {
						start := time.Now()
						for ended = start; ended.Sub(start) < work; {
							ended = time.Now()
						}
					})); err != nil {
						b.Fatal(err)
					}
					if err := waits[who](); err != nil {
						b.Fatal(err)
					}
					late = append(late, time.Since(ended))
				}
				slices.Sort(late)
				b.ReportMetric(float64(late[len(late)/2]), "ns-late/op")
			})
		}
	}
}
