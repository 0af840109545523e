package share_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/share"
)

// fill copies first, first+1... into a tensor on a device.
func fill(t testing.TB, d core.Device, x *core.Tensor, first int32) {
	t.Helper()
	list := make([]int32, elements)
	for i := range list {
		list[i] = first + int32(i)
	}
	s, err := core.FromSlice(list, elements)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := d.Copy(t.Context(), nil, x, s); err != nil {
		t.Fatal(err)
	}
}

// A ring on any device that exports memory is read on any device, in both modes. Nothing is copied on
// the way to the same device, nor from the host to the host.
func TestRingsOfEveryDeviceToEveryDevice(t *testing.T) {
	publishers, subscribers := openAll(t), openAll(t)
	a, b := connect(t, share.Options{Devices: publishers}, share.Options{Devices: subscribers})
	rings := 0
	for _, from := range publishers {
		for _, mode := range []share.Mode{share.Queue, share.Latest} {
			for _, to := range subscribers {
				t.Run(fmt.Sprintf("%v of %v to %v", mode, from.ID(), to.ID()), func(t *testing.T) {
					p, err := a.Publish(t.Context(), "frames", share.Ring{Slots: 3, Shape: []int64{elements}, DType: core.TypeInt32, Device: from, Mode: mode})
					if errors.Is(err, core.ErrNotSupported) {
						t.Logf("no ring: %v", err)
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					defer p.Close()
					rings++
					s, err := b.Subscribe(t.Context(), "frames", share.SubscribeOptions{Device: to})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					for n := range int32(7) {
						x, err := p.Loan(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						fill(t, from, x, 100*n)
						r, err := p.Send(t.Context(), x)
						if err != nil {
							t.Fatal(err)
						}
						if len(r.Readers) != 1 || r.Readers[0].To != to.ID() {
							t.Fatalf("the report: %+v", r)
						}
						how := r.Readers[0]
						if same := from.ID() == to.ID(); same && (how.Mechanism != exchange.Map || how.BytesCopied != 0) || how.BytesCopied != 0 && how.BytesCopied < 4*elements {
							t.Errorf("the report: %+v", how)
						}
						f, err := s.Receive(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						if f.Sequence() != uint64(n+1) || f.Tensor().DeviceID() != to.ID() {
							t.Errorf("frame %d on %v", f.Sequence(), f.Tensor().DeviceID())
						}
						if how.BytesCopied == 0 && !f.Tensor().ReadOnly() {
							t.Error("the tensor of a slot is not read-only")
						}
						check(t, to, f.Tensor(), 100*n)
						if err := f.Err(); err != nil {
							t.Error(err)
						}
						f.Release()
					}
					if err := p.WaitReleased(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	if rings == 0 {
		t.Error("no device has made a ring")
	}
	if err := a.Err(); err != nil {
		t.Error(err)
	}
}

// Slots of any device that a subscriber held are used again when its connection has ended.
func TestSlotsOfASubscriberThatHasGone(t *testing.T) {
	publishers, subscribers := openAll(t), openAll(t)
	for _, from := range publishers {
		for _, mode := range []share.Mode{share.Queue, share.Latest} {
			t.Run(fmt.Sprintf("%v of %v", mode, from.ID()), func(t *testing.T) {
				a, b := connect(t, share.Options{Devices: publishers}, share.Options{Devices: subscribers})
				p, err := a.Publish(t.Context(), "frames", share.Ring{Slots: 4, Shape: []int64{elements}, DType: core.TypeInt32, Device: from, Mode: mode})
				if errors.Is(err, core.ErrNotSupported) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				s, err := b.Subscribe(t.Context(), "frames", share.SubscribeOptions{Hold: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				send := func(n int32) {
					t.Helper()
					x, err := p.Loan(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					fill(t, from, x, n)
					if _, err := p.Send(t.Context(), x); err != nil {
						t.Fatal(err)
					}
				}
				for n := range int32(2) {
					send(n)
					f, err := s.Receive(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer f.Release()
				}
				_ = b.Close()
				if err := p.WaitReleased(t.Context()); err != nil {
					t.Fatal(err)
				}
				for n := range int32(8) { // every slot, twice
					send(n)
				}
				if n := len(p.Readers()); n != 0 {
					t.Errorf("%d readers are left", n)
				}
			})
		}
	}
}

// The file of a ring takes the place of a memory beside that of the slots: Publish waits for that place.
func TestARingOfADeviceKeepsTheLimits(t *testing.T) {
	publishers, subscribers := openAll(t), openAll(t)
	for _, from := range publishers {
		if from.ID().Type.HostAccessible() {
			continue // the slots lie in the file
		}
		t.Run(fmt.Sprint(from.ID()), func(t *testing.T) {
			ring := share.Ring{Slots: 3, Shape: []int64{elements}, DType: core.TypeInt32, Device: from, Mode: share.Queue}
			a, b := connect(t, share.Options{Devices: publishers}, share.Options{Devices: subscribers, Limits: share.Limits{Memories: 2}})
			x, err := core.Empty(t.Context(), publishers[0], core.TypeInt32, []int64{elements}, core.AllocOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if _, err := a.Send(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			y, _, err := b.Receive(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = a.Publish(ctx, "frames", ring)
			if errors.Is(err, core.ErrNotSupported) {
				y.Close()
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) || a.Err() != nil || b.Err() != nil {
				t.Errorf("a ring while a tensor is held: %v, the connections: %v, %v", err, a.Err(), b.Err())
			}
			y.Close()
			p, err := a.Publish(t.Context(), "frames", ring)
			if errors.Is(err, core.ErrNotSupported) { // the context has ended before that was found
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := b.Subscribe(t.Context(), "frames", share.SubscribeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
			_ = p.Close()

			a, b = connect(t, share.Options{Devices: publishers}, share.Options{Devices: subscribers, Limits: share.Limits{Memories: 1}})
			if _, err := a.Publish(t.Context(), "frames", ring); !errors.Is(err, core.ErrOutOfMemory) || a.Err() != nil || b.Err() != nil {
				t.Errorf("a ring that can never be passed: %v, the connections: %v, %v", err, a.Err(), b.Err())
			}
		})
	}
}
