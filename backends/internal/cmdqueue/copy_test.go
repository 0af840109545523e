package cmdqueue_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/staging"
)

var (
	keep    = coretest.Keep
	row     = coretest.Row
	pattern = coretest.Pattern
)

// Copies between the host and memory that it does not reach: in pieces, packed, and in the order of a stream.
func TestCopiesThroughStagingMemory(t *testing.T) {
	all := func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(0, 0, t.NumElements(), 1) }
	reversed := func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(0, t.NumElements()-1, -1, -1) }
	for _, c := range []struct {
		name string
		n    int64
		view func(*core.Tensor) (*core.Tensor, error)
	}{{"in pieces", 5*staging.PieceBytes/2 + 3, all}, {"packed", 1000, reversed}} {
		for _, streamed := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				d := open(t, 0)
				var s core.Stream
				if streamed {
					s = d.stream(t)
				}
				content, got := pattern(int(c.n), 1), make([]byte, c.n)
				src, dst := keep(t)(core.FromSlice(content)), keep(t)(core.FromSlice(got))
				x := row(t, d, c.n, core.AllocOptions{})
				view := keep(t)(c.view(x))
				back := keep(t)(c.view(dst))
				if err := errors.Join(d.Copy(t.Context(), s, view, src), d.Copy(t.Context(), s, back, x)); err != nil {
					t.Fatal(err)
				}
				if err := dst.WaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, content) {
					t.Error("the bytes are wrong")
				}
			})
		}
	}
}

// A copy without a stream that panics gives its stream back: else Close of the device would wait for it at the end of the test.
func TestAPanicGivesTheStreamBack(t *testing.T) {
	d := open(t, 0)
	x, y := row(t, d, 1000, core.AllocOptions{}), row(t, d, 1000, core.AllocOptions{})
	d.set(func() { d.panics = true })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the copy did not panic")
			}
		}()
		_ = d.Copy(t.Context(), nil, y, x)
	}()
	d.set(func() { d.panics = false })
	if err := d.Copy(t.Context(), nil, y, x); err != nil {
		t.Fatal(err)
	}
}

// The halves of the staging memory are used in order, also if the device is slow: the host fills a half when the device has
// emptied it, and reads it when the device has filled it.
func TestPiecesWaitForTheOtherSide(t *testing.T) {
	const n = 3 * staging.PieceBytes
	for _, c := range []struct {
		name       string
		up, before bool   // before: work of the stream writes the source first
		held       uint64 // the first item that needs the host, which waits for the device
		items      uint64 // all of them; the last of a download is done when the host is
	}{{"up", true, false, 3, 3}, {"up after work", true, true, 2, 4}, {"down", false, false, 3, 4}, {"down after work", false, true, 4, 5}} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, 0)
			s := d.stream(t)
			x := row(t, d, n, core.AllocOptions{})
			operand, err := d.OperandOf(x)
			if err != nil {
				t.Fatal(err)
			}
			content, onHost := pattern(n, 4), make([]byte, n)
			host := keep(t)(core.FromSlice(onHost))
			dst, src, from, to := host, x, operand.Object.bytes, onHost
			if c.up {
				dst, src, from, to = x, host, onHost, operand.Object.bytes
			}
			d.pause()
			if c.before {
				if err := s.add(t, item{Commands: commands(func() { copy(from, content) })}); err != nil {
					t.Fatal(err)
				}
			} else {
				copy(from, content)
			}
			if err := d.Copy(t.Context(), s, dst, src); err != nil {
				t.Fatal(err)
			}
			s.Mu.Lock()
			items := s.Newest()
			s.Mu.Unlock()
			if items != c.items {
				t.Errorf("%d items, want %d", items, c.items)
			}
			for range 20 { // time for a host that does not wait
				s.Mu.Lock()
				early := s.Submitted(c.held)
				s.Mu.Unlock()
				if early {
					t.Errorf("item %d does not wait for the device", c.held)
					break
				}
				time.Sleep(time.Millisecond)
			}
			d.resume()
			if err := s.Synchronize(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(to, content) {
				t.Error("the bytes are wrong")
			}
		})
	}
}

// Staging memory serves one copy after the other, and little of it is kept.
func TestStagingMemoryIsReused(t *testing.T) {
	d := open(t, 0)
	host := keep(t)(core.FromSlice(pattern(100, 1)))
	x := row(t, d, 100, core.AllocOptions{})
	for range 10 {
		if err := d.Copy(t.Context(), nil, x, host); err != nil {
			t.Fatal(err)
		}
	}
	if d.made != 1 {
		t.Errorf("%d buffers were made for copies that do not overlap", d.made)
	}
	const n, many = 100 << 10, 9 // larger than what many are kept of
	big := keep(t)(core.FromSlice(make([]byte, n)))
	d.pause()
	var streams [many]*queue
	for i := range streams {
		streams[i] = d.stream(t)
		if err := d.Copy(t.Context(), streams[i], row(t, d, n, core.AllocOptions{}), big); err != nil {
			t.Fatal(err)
		}
	}
	d.resume()
	for _, s := range streams {
		if err := s.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Reaper.WaitWhile(t.Context(), &d.Mu, func(int) bool { return true })
	if d.made >= many {
		t.Errorf("%d buffers are kept", d.made)
	}
}

// The size of staging memory is not rounded up to more than the device allows.
func TestStagingMemoryHasALargestSize(t *testing.T) {
	const most = 100 << 10
	d := open(t, 0)
	d.MaxStaging = most
	for _, n := range []int{most - 1000, most, most + 1} {
		err := d.Copy(t.Context(), nil, row(t, d, int64(n), core.AllocOptions{}), keep(t)(core.FromSlice(make([]byte, n))))
		if n <= most && err != nil || n > most && !errors.Is(err, core.ErrOutOfMemory) {
			t.Errorf("%d bytes: error %v", n, err)
		}
	}
}

// Work of a lost device may still use staging memory, which is destroyed with the device.
func TestALostDeviceKeepsItsStagingMemory(t *testing.T) {
	const n, many = 100 << 10, 9 // more than are kept for later copies
	d := open(t, 0)
	host := keep(t)(core.FromSlice(make([]byte, n)))
	d.pause()
	for range many {
		if err := d.Copy(t.Context(), d.stream(t), row(t, d, n, core.AllocOptions{}), host); err != nil {
			t.Fatal(err)
		}
	}
	d.set(func() { _ = d.NoteLoss(core.Errorf(core.ErrDeviceLost, "test", "test", "by the test")) })
	d.Mu.Lock()
	d.Reaper.WaitWhile(t.Context(), &d.Mu, func(int) bool { return true })
	if d.made != many {
		t.Errorf("%d of %d buffers were destroyed, and work may use them", many-d.made, many)
	}
	d.Mu.Unlock()
	d.resume()
}

// A copy that fails in the middle returns when the part of it that runs is over: its tensors may be freed then.
func TestACopyThatFailsWaitsForItsParts(t *testing.T) {
	const n = 3 * staging.PieceBytes
	d := open(t, 0)
	s := d.stream(t)
	x, host := row(t, d, n, core.AllocOptions{}), keep(t)(core.FromSlice(make([]byte, n)))
	d.fail(nil, errTest) // the second piece to the host
	if err := d.Copy(t.Context(), s, host, x); !errors.Is(err, errTest) {
		t.Fatalf("Copy: error %v, want that of the second piece", err)
	}
	if !s.Has(1) {
		t.Error("a piece runs after Copy has failed")
	}
	if err := d.Copy(t.Context(), s, host, x); err != nil {
		t.Error(err)
	}
	d.fail(nil, errTest) // the same on a stream of the device's own, which is used again
	if err := d.Copy(t.Context(), nil, host, x); !errors.Is(err, errTest) {
		t.Fatalf("Copy: error %v, want that of the second piece", err)
	}
	if err := d.Copy(t.Context(), nil, host, x); err != nil {
		t.Error(err)
	}
}

// A caller whose ctx ends does not wait, and the copy goes on.
func TestACopyGoesOnAfterItsContext(t *testing.T) {
	d := open(t, 0)
	x, host := row(t, d, 100, core.AllocOptions{}), keep(t)(core.FromSlice(pattern(100, 3)))
	d.pause()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := d.Copy(ctx, nil, x, host); !errors.Is(err, context.Canceled) {
			t.Errorf("Copy: %v", err)
		}
	})
	cancel()
	group.Wait()
	d.resume()
	_ = x.WaitReady(t.Context())
}

// Copies of a batch are one item; those from and to the host add one of the host.
func TestABatchIsSubmittedTogether(t *testing.T) {
	const n = 200
	d := open(t, 0)
	s := d.stream(t)
	var lists [3][2][]*core.Tensor // up, within the device, down; dst and src
	add := func(i int, dst, src *core.Tensor) {
		lists[i][0], lists[i][1] = append(lists[i][0], dst), append(lists[i][1], src)
	}
	contents, back := make([][]byte, n), make([][]byte, n)
	for i := range n {
		size := 1000 + i
		contents[i], back[i] = pattern(size, uint64(i)), make([]byte, size)
		a, b := row(t, d, int64(size), core.AllocOptions{}), row(t, d, int64(size), core.AllocOptions{})
		add(0, a, keep(t)(core.FromSlice(contents[i])))
		add(1, b, a)
		add(2, keep(t)(core.FromSlice(back[i])), b)
	}
	for i, items := range [...]uint64{2, 1, 2} {
		before := s.Newest()
		if err := d.CopyBatch(t.Context(), s, lists[i][0], lists[i][1]); err != nil {
			t.Fatal(err)
		}
		if got := s.Newest() - before; got != items {
			t.Errorf("batch %d: %d items of work, want %d", i, got, items)
		}
	}
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if !bytes.Equal(back[i], contents[i]) {
			t.Errorf("tensor %d came back changed", i)
		}
	}
	if err := d.CopyBatch(t.Context(), nil, lists[0][0], lists[0][1]); err != nil {
		t.Error(err)
	}
}

func TestATensorOfUnknownSizeStaysWithinItsBuffer(t *testing.T) {
	d := open(t, 0)
	x := row(t, d, 100, core.AllocOptions{})
	part := keep(t)(x.Slice(0, 60, 100, 1))
	if err := d.CheckExtent(part, 100, "buffer"); err != nil {
		t.Error(err)
	}
	coretest.WantError(t, d.CheckExtent(part, 99, "buffer"), core.ErrInvalid, "a buffer that is too small")
}
