package metrics

import (
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// A connection counts while it is open and after its end, with the reason of the end.
func TestMetricsOfConnections(t *testing.T) {
	before := scrape(t)
	d, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	o := share.Options{Devices: []core.Device{d}}
	path := filepath.Join(t.TempDir(), "socket")
	l, err := share.Listen(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *share.Conn, 1)
	go func() {
		c, err := l.Accept(t.Context())
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	a, err := share.Dial(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := <-accepted
	defer b.Close()
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{100}, core.AllocOptions{Export: core.HandleMemFD})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := core.FromSlice(make([]uint8, 10)) // is copied
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	var received []*core.Tensor
	for _, z := range []*core.Tensor{x, y} {
		if _, err := a.Send(t.Context(), z); err != nil {
			t.Fatal(err)
		}
		r, _, err := b.Receive(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		received = append(received, r)
	}
	rose := func(when string, want map[string]float64) {
		t.Helper()
		now := scrape(t)
		for metric, n := range want {
			if got := valueOf(t, now, metric) - valueOf(t, before, metric); got != n {
				t.Errorf("%s: %s rose by %v, want %v", when, metric, got, n)
			}
		}
	}
	sums := map[string]float64{
		"dlx_share_connections_total": 2, "dlx_share_refused_total": 0,
		"dlx_share_sent_tensors_total": 2, "dlx_share_received_tensors_total": 2, "dlx_share_sent_bytes_total": 110, "dlx_share_received_bytes_total": 110,
		"dlx_share_copied_bytes_total": 10, "dlx_share_sent_memories_total": 2, "dlx_share_opened_memories_total": 2,
	}
	rose("open", sums)
	rose("open", map[string]float64{"dlx_share_open_connections": 2, "dlx_share_in_flight_tensors": 2, "dlx_share_held_tensors": 2})
	for _, r := range received {
		r.Close()
	}
	if err := a.WaitReleased(t.Context()); err != nil {
		t.Fatal(err)
	}
	rose("released", map[string]float64{"dlx_share_in_flight_tensors": 0, "dlx_share_held_tensors": 0})
	release := passFrames(t, a, b)
	rose("frames", map[string]float64{
		"dlx_share_sent_frames_total": 3, "dlx_share_released_frames_total": 2, "dlx_share_in_flight_frames": 1, "dlx_share_sent_frame_bytes_total": 24,
		"dlx_share_received_frames_total": 1, "dlx_share_dropped_frames_total": 2, "dlx_share_held_frames": 1, "dlx_share_received_frame_bytes_total": 8,
		"dlx_share_loan_waits_total": 0, "dlx_share_receive_waits_total": 0,
	})
	release()
	_ = a.Close()
	<-b.Done()
	_ = b.Close() // returns when all is closed
	rose("ended", sums)
	rose("ended", map[string]float64{
		"dlx_share_open_connections": 0, `dlx_share_ended_connections_total{reason="closed"}`: 1, `dlx_share_ended_connections_total{reason="closed_by_peer"}`: 1,
	})
	l.Close()
	if l, err = share.Listen(path, share.Options{Allow: share.AllowUsers()}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _, _ = l.Accept(t.Context()) }()
	if c, err := share.Dial(t.Context(), path, o); err == nil {
		_ = c.Close()
		t.Error("a process that is not permitted connects")
	}
	rose("refused", map[string]float64{"dlx_share_refused_total": 1})
}

// passFrames publishes three frames, of which the subscriber holds the last one until the result is called.
func passFrames(t *testing.T, a, b *share.Conn) (release func()) {
	t.Helper()
	p, err := a.Publish(t.Context(), "frames", share.Ring{Slots: 3, Shape: []int64{8}, DType: core.TypeUint8, Mode: share.Latest})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Subscribe(t.Context(), "frames", share.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		x, err := p.Loan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Send(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		f.Release()
		_ = s.Close()
		_ = p.Close()
	}
}
