package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// counted are metrics by what they are of.
type counted struct {
	devices map[core.DeviceID]core.DeviceMetrics
	moves   map[string]core.MoveMetrics // by movesOf
	errors  map[string]int64
}

func movesOf(from, to core.DeviceID, m exchange.Mechanism) string {
	return fmt.Sprint(from, " ", to, " ", m)
}

func readCounted() counted {
	m := core.ReadMetrics()
	c := counted{make(map[core.DeviceID]core.DeviceMetrics), make(map[string]core.MoveMetrics), make(map[string]int64)}
	for _, d := range m.Devices {
		c.devices[d.Device] = d
	}
	for _, x := range m.Moves {
		c.moves[fmt.Sprint(x.From, " ", x.To, " ", x.Mechanism)] = x
	}
	for _, e := range m.MoveErrors {
		c.errors[e.Error] = e.Count
	}
	return c
}

// wantMoves checks how many moves, and of how many bytes, were counted since c was read.
func (c counted) wantMoves(t *testing.T, r exchange.Report, moves, bytes int64) {
	t.Helper()
	key := movesOf(r.From, r.To, r.Mechanism)
	a, b := c.moves[key], readCounted().moves[key]
	if b.Moves-a.Moves != moves || b.Bytes-a.Bytes != bytes {
		t.Errorf("%s: %d moves of %d bytes, want %d of %d", key, b.Moves-a.Moves, b.Bytes-a.Bytes, moves, bytes)
	}
}

func (c counted) sum() (n int64) {
	for _, m := range c.moves {
		n += m.Moves
	}
	return n
}

func (c counted) failed() (n int64) {
	for _, m := range c.errors {
		n += m
	}
	return n
}

func TestMetricsOfEachMechanism(t *testing.T) {
	a, b := newFakes(t, exports, imports|peer)
	plain, exported := numbered(t, a, core.AllocOptions{}, 8), numbered(t, a, core.AllocOptions{Export: handleType}, 8)
	defer plain.Close()
	defer exported.Close()
	onHost := slice(t, make([]int32, 8))
	for _, c := range []struct {
		src  *core.Tensor
		dst  core.Device
		o    exchange.Options
		want exchange.Mechanism
	}{
		{plain, a, exchange.Options{}, exchange.Alias},
		{exported, b, exchange.Options{}, exchange.Map},
		{plain, b, exchange.Options{}, exchange.Peer},
		{onHost, b, exchange.Options{}, exchange.Direct},
		{plain, b, exchange.Options{Only: exchange.Staged}, exchange.Staged},
	} {
		t.Run(c.want.String(), func(t *testing.T) {
			before := readCounted()
			_, report := to(t, c.src, c.dst, c.o)
			if report.Mechanism != c.want {
				t.Fatalf("the mechanism is %v", report.Mechanism)
			}
			before.wantMoves(t, report, 1, 32)
			route, err := exchange.Plan(c.src, c.dst, c.o)
			if err != nil {
				t.Fatal(err)
			}
			before.wantMoves(t, report, 1, 32) // a plan moves nothing
			x, report, err := route.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = x.Close()
			list, _, err := exchange.ToAll(t.Context(), []*core.Tensor{c.src, c.src, c.src}, c.dst, c.o)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range list {
				_ = x.Close()
			}
			before.wantMoves(t, report, 5, 5*32)
			if n := readCounted().sum() - before.sum(); n != 5 {
				t.Errorf("%d moves were counted, want 5", n)
			}
		})
	}
}

// A view of a part counts the bytes of the part, and an empty tensor counts none.
func TestMetricsOfPartsAndNothing(t *testing.T) {
	a, _ := newFakes(t, 0, 0)
	x := numbered(t, a, core.AllocOptions{}, 10)
	defer x.Close()
	for _, n := range []int64{4, 0} {
		part, err := x.Slice(0, 2, 2+n, 1)
		if err != nil {
			t.Fatal(err)
		}
		before := readCounted()
		_, report := to(t, part, a, exchange.Options{})
		before.wantMoves(t, report, 1, 4*n)
		_ = part.Close()
	}
}

func TestMetricsOfOpenedMemory(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 8)
	before := readCounted().devices[b.ID()]
	check := func(what string, opens, closes int64) {
		t.Helper()
		d := readCounted().devices[b.ID()]
		if d.Opens-before.Opens != opens || d.Closes-before.Closes != closes {
			t.Errorf("%s: %d opens and %d closes, want %d and %d", what, d.Opens-before.Opens, d.Closes-before.Closes, opens, closes)
		}
	}
	for range 3 { // the first opens it
		x, _ := to(t, src, b, exchange.Options{})
		_ = x.Close()
		check("a move", 1, 0)
	}
	_ = src.Close()
	check("the source closed", 1, 1)

	b.fail("ImportMemory", core.ErrOutOfMemory)
	other := numbered(t, a, core.AllocOptions{Export: handleType}, 8)
	defer other.Close()
	x, _ := to(t, other, b, exchange.Options{})
	_ = x.Close()
	check("an opening that failed", 1, 1)
}

// A move that fails counts as one error, and what it has allocated is freed.
func TestMetricsOfMovesThatFail(t *testing.T) {
	a, b := newFakes(t, exports, imports|peer)
	src := numbered(t, a, core.AllocOptions{}, 8)
	defer src.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	closed := slice(t, []int32{1})
	_ = closed.Close()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		src   *core.Tensor
		o     exchange.Options
		fault string // of all calls of a device
		err   error
		want  string
	}{
		{"canceled", ended, src, exchange.Options{}, "", context.Canceled, "canceled"},
		{"closed", t.Context(), closed, exchange.Options{}, "", core.ErrClosed, "closed"},
		{"nil", t.Context(), nil, exchange.Options{}, "", core.ErrInvalid, "invalid_argument"},
		{"impossible", t.Context(), src, exchange.Options{Only: exchange.Alias}, "", core.ErrNotSupported, "not_supported"},
		{"halfway", t.Context(), src, exchange.Options{Only: exchange.Peer}, "CopyPeer", core.ErrDeviceLost, "device_lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := readCounted()
			live := before.devices[b.ID()]
			calls := map[string]func() error{
				"To": func() error { _, _, err := exchange.To(c.ctx, c.src, b, c.o); return err },
				"ToAll": func() error {
					_, _, err := exchange.ToAll(c.ctx, []*core.Tensor{src, c.src}, b, c.o)
					return err
				},
			}
			for name, call := range calls {
				if c.fault != "" {
					b.fail(c.fault, c.err)
				}
				if err := call(); !errors.Is(err, c.err) {
					t.Errorf("%s: %v", name, err)
				}
			}
			now := readCounted()
			if n := now.errors[c.want] - before.errors[c.want]; n != 2 || now.failed()-before.failed() != 2 {
				t.Errorf("%d errors are %q, and %d in all; want 2: %v", n, c.want, now.failed()-before.failed(), now.errors)
			}
			if now.sum() != before.sum() {
				t.Error("a move that failed counts as moved")
			}
			if d := now.devices[b.ID()]; d.LiveBytes() != live.LiveBytes() || d.Tensors != live.Tensors {
				t.Errorf("after the failure %+v, before %+v", d, live)
			}
		})
	}
}

// Between all devices of this build the metrics say what the reports say.
func TestMetricsOfAllDevices(t *testing.T) {
	devices := openAll(t, 1)
	for _, from := range devices {
		src := numbered(t, from, core.AllocOptions{}, 1000)
		for _, dst := range devices {
			before := readCounted()
			x, report, err := exchange.To(t.Context(), src, dst, exchange.Options{})
			if err != nil {
				t.Fatal(err)
			}
			before.wantMoves(t, report, 1, 4000)
			now, id := readCounted(), dst.ID()
			if report.BytesCopied > 0 && now.devices[id].AllocatedBytes-before.devices[id].AllocatedBytes < 4000 {
				t.Errorf("%v to %v: %+v, before the copy %+v", from.ID(), id, now.devices[id], before.devices[id])
			}
			if report.Opened && now.devices[id].Opens == before.devices[id].Opens && now.devices[core.CPU].Opens == before.devices[core.CPU].Opens {
				t.Errorf("%v to %v: memory was opened, and not counted", from.ID(), id)
			}
			if err := errors.Join(x.WaitIdle(t.Context()), x.Close()); err != nil {
				t.Error(err)
			}
			// What the first move has left is kept for moves like it, such as the buffers of a staged one.
			kept := readCounted().devices[id].Tensors
			x, _, err = exchange.To(t.Context(), src, dst, exchange.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(x.WaitIdle(t.Context()), x.Close()); err != nil {
				t.Error(err)
			}
			if d := readCounted().devices[id]; d.Tensors != kept {
				t.Errorf("%v has %d tensors, before the move %d", id, d.Tensors, kept)
			}
		}
		_ = src.Close()
	}
}

func TestMetricsOfMovesHammer(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	src := numbered(t, a, core.AllocOptions{Export: handleType}, 8)
	defer src.Close()
	before := readCounted()
	const workers, rounds = 8, 200
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for range rounds {
				x, _, err := exchange.To(t.Context(), src, b, exchange.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				_ = x.Close()
				core.ReadMetrics()
			}
		})
	}
	work.Wait()
	before.wantMoves(t, exchange.Report{From: a.ID(), To: b.ID(), Mechanism: exchange.Map}, workers*rounds, 32*workers*rounds)
}

// Every mechanism has its own name in the metrics.
func TestMechanismsHaveNames(t *testing.T) {
	var names []string
	for m := range exchange.Staged + 1 {
		names = append(names, m.String())
	}
	if !slices.Equal(names, []string{"none", "alias", "map", "peer", "direct", "staged"}) || (exchange.Staged+1).String() != "unknown" {
		t.Error(names)
	}
}
