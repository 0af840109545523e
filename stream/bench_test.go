package stream_test

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

func nothing() error { return nil }

// BenchmarkQueue measures a piece of work from being enqueued to being done,
// among many.
func BenchmarkQueue(b *testing.B) {
	for _, c := range []struct {
		name  string
		every int // pieces of work for one event
	}{{"work", 1 << 30}, {"work and event", 1}} {
		b.Run(c.name, func(b *testing.B) {
			q := newQueue(b)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := q.Enqueue(nothing); err != nil {
					b.Fatal(err)
				}
				if i++; i%c.every == 0 {
					if _, err := q.Record(); err != nil {
						b.Fatal(err)
					}
				}
				if i%256 == 0 {
					if err := q.Synchronize(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkRoundTrip measures one piece of work that is waited for at once.
func BenchmarkRoundTrip(b *testing.B) {
	q := newQueue(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Enqueue(nothing); err != nil {
			b.Fatal(err)
		}
		if err := q.Synchronize(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSubmit measures ordered work on two tensors.
func BenchmarkSubmit(b *testing.B) {
	q := newQueue(b)
	dst, src := []*core.Tensor{host(b, []int8{0})}, []*core.Tensor{host(b, []int8{0})}
	enqueue := func() error { return q.Enqueue(nothing) }
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := stream.Submit(context.Background(), q, dst, src, enqueue); err != nil {
			b.Fatal(err)
		}
		if i%64 == 0 {
			if err := q.Synchronize(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
