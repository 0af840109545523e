package stream_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// operation sets one tensor of a program from another.
type operation struct{ dst, src, stream int }

// program draws operations on n tensors; a tensor is never set from itself.
func program(r *rand.Rand, length, n, streams int) []operation {
	ops := make([]operation, length)
	for i := range ops {
		dst := r.IntN(n)
		ops[i] = operation{dst, (dst + 1 + r.IntN(n-1)) % n, r.IntN(streams)}
	}
	return ops
}

// mix is what an operation on queues does: its result tells the order of all before.
func mix(dst, src int64) int64 { return dst*31 + src }

// Each goroutine runs a program of its own over queues that all of them share.
// Its operations follow each other through tensors, on whichever queue they run.
func TestHammerQueues(t *testing.T) {
	checkNoGoroutines(t)
	const goroutines, tensors, length = 8, 5, 2000
	queues := make([]*stream.Queue, 6)
	for i := range queues {
		queues[i] = newQueue(t)
	}
	var workers sync.WaitGroup
	for g := range goroutines {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			want, got := make([]int64, tensors), make([][]int64, tensors)
			x := make([]*core.Tensor, tensors)
			for i := range x {
				want[i] = int64(i)
				got[i] = []int64{want[i]}
				x[i] = host(t, got[i])
			}
			for _, op := range program(r, length, tensors, len(queues)) {
				want[op.dst] = mix(want[op.dst], want[op.src])
				q, dst, src := queues[op.stream], got[op.dst], got[op.src]
				writes, reads := []*core.Tensor{x[op.dst]}, []*core.Tensor{x[op.src], x[op.dst]}
				err := stream.Submit(t.Context(), q, writes, reads, func() error {
					return q.Enqueue(func() error { dst[0] = mix(dst[0], src[0]); return nil })
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
			for i := range x {
				if err := x[i].WaitReady(t.Context()); err != nil || got[i][0] != want[i] {
					t.Errorf("goroutine %d: tensor %d holds %d, %v; one after the other gives %d", g, i, got[i][0], err, want[i])
				}
			}
		})
	}
	workers.Wait()
}

// The same on simulated devices, whose operations are copies between tensors of
// either device, some of which are closed and replaced while work on them is late.
func TestHammerDevices(t *testing.T) {
	for _, o := range []coretest.Options{{}, {HostWaits: true}} {
		b := newBackend(t, o)
		var workers sync.WaitGroup
		for g := range 6 {
			devices := [2]core.Device{open(t, b, 0), open(t, b, 1)}
			var streams [4]core.Stream
			for i := range streams {
				streams[i] = newStream(t, devices[i%2])
			}
			workers.Go(func() { hammerDevices(t, rand.New(rand.NewPCG(uint64(g), 2)), devices, streams[:]) })
		}
		workers.Wait()
	}
}

func hammerDevices(t *testing.T, r *rand.Rand, devices [2]core.Device, streams []core.Stream) {
	const tensors, length = 6, 300
	x, want := make([]*core.Tensor, tensors), make([]int64, tensors)
	defer func() {
		for _, tensor := range x {
			_ = tensor.Close()
		}
	}()
	// renew gives a place a fresh tensor that holds value.
	renew := func(i int, value int64) error {
		d := devices[i%2]
		fresh, err := core.Empty(t.Context(), d, core.TypeInt64, []int64{3}, core.AllocOptions{})
		if err != nil {
			return err
		}
		x[i], want[i] = fresh, value
		values, err := core.FromSlice([]int64{value, value, value})
		if err != nil {
			return err
		}
		defer values.Close()
		return d.Copy(t.Context(), streams[i%2], fresh, values)
	}
	for i := range x {
		if err := renew(i, int64(i+1)); err != nil {
			t.Error(err)
			return
		}
	}
	for step, op := range program(r, length, tensors, len(streams)/2) {
		d, peer := devices[op.dst%2], devices[op.src%2]
		err := d.(core.PeerCopier).CopyPeer(t.Context(), streams[2*op.stream+op.dst%2], x[op.dst], x[op.src], peer)
		want[op.dst] = want[op.src]
		if err == nil && r.IntN(10) == 0 {
			_ = x[op.src].Close()
			err = renew(op.src, int64(100+step))
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
	for i := range x {
		got := make([]int64, 3)
		dst, err := core.FromSlice(got)
		if err == nil {
			err = devices[i%2].Copy(t.Context(), nil, dst, x[i])
			_ = dst.Close()
		}
		if err != nil || !slices.Equal(got, []int64{want[i], want[i], want[i]}) {
			t.Errorf("tensor %d holds %d, %v; one after the other gives %d", i, got, err, want[i])
		}
	}
}
