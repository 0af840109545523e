package share

import "testing"

func BenchmarkRingAlone(b *testing.B) {
	a, c := connected(b, Options{}, Options{})
	p, err := a.Publish(b.Context(), "frames", pingRing)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	s, err := c.Subscribe(b.Context(), "frames", SubscribeOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		if err := sendWord(b.Context(), p, n); err != nil {
			b.Fatal(err)
		}
		if _, err := receiveWord(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}
