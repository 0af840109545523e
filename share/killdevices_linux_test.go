//go:build cgo

package share

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

// childCards sends and receives memory of GPUs until it is killed.
const childCards = "cards"

var _ = role(childCards, childsCards)

// cards opens the host and the first device of each API whose memory can be exported. The caller
// closes them.
func cards(ctx context.Context) (list []core.Device, err error) {
	registry := all.New()
	for _, name := range []string{"cpu", "cuda", "rocm", "vulkan"} {
		b, err := registry.Backend(name)
		if err != nil || !b.Probe(ctx).Available {
			continue
		}
		found, err := b.Devices(ctx)
		if err != nil {
			return list, err
		}
		d, err := b.Open(ctx, found[0].ID)
		if err != nil {
			return list, err
		}
		list = append(list, d)
	}
	return list, nil
}

func cardTraffic(c *Conn, list []core.Device) error {
	var both sync.WaitGroup
	both.Go(func() { _ = sendCards(c, list) })
	err := receiveCards(c, list)
	if !errors.As(err, new(*ConnError)) {
		_ = c.Close()
	}
	both.Wait()
	return err
}

// sendCards sends new memory of each kind of each device, in turn, until the connection ends. The
// last tensors stay open for a while.
func sendCards(c *Conn, list []core.Device) error {
	ctx := context.Background()
	var last []*core.Tensor
	defer func() {
		for _, x := range last {
			x.Close()
		}
	}()
	from, err := core.FromSlice(slices.Repeat([]int32{1}, words), words)
	if err != nil {
		return err
	}
	defer from.Close()
	for {
		for _, d := range list {
			for _, t := range exports(d) {
				x, err := core.Empty(ctx, d, core.TypeInt32, []int64{words}, core.AllocOptions{Export: t})
				if err != nil {
					return err
				}
				if last = append(last, x); len(last) > 5 {
					last[0].Close()
					last = last[1:]
				}
				if err := d.Copy(ctx, nil, x, from); err != nil {
					return err
				}
				if _, err := c.Send(ctx, x); err != nil {
					return err
				}
			}
		}
	}
}

// receiveCards receives on each device in turn until the connection ends.
func receiveCards(c *Conn, list []core.Device) error {
	ctx := context.Background()
	for n := 0; ; n++ {
		d := list[n%len(list)]
		x, _, err := c.Receive(ctx, d)
		if err != nil {
			return err
		}
		got := make([]int32, words)
		into, err := core.FromSlice(got, words)
		if err == nil {
			err = d.Copy(ctx, nil, into, x)
		}
		x.Close()
		into.Close()
		if err != nil {
			return err
		}
		if c.Err() == nil && (slices.Min(got) != 1 || slices.Max(got) != 1) {
			return fmt.Errorf("elements from %d to %d arrive, want 1", slices.Min(got), slices.Max(got))
		}
	}
}

func childsCards() error {
	list, err := cards(context.Background())
	if err != nil {
		return err
	}
	c, err := inherited(list)
	if err != nil {
		return err
	}
	return cardTraffic(c, list)
}

// driversObjects are the objects that are open in the simulated drivers, with their memory. Streams
// and events are left out: devices keep as many as were needed at the same time.
func driversObjects(t *testing.T) map[string]int {
	t.Helper()
	open := map[string]int{}
	for name, simulator := range map[string]func() (*gpusim.Simulator, error){"cuda": gpusim.Open, "hip": gpusim.OpenHIP} {
		s, err := simulator()
		if err != nil {
			t.Log(name, err)
			continue
		}
		for kind, n := range s.Live() {
			if kind != "streams" && kind != "events" {
				open[name+" "+kind] = n
			}
		}
	}
	return open
}

// inUse returns the bytes that the devices have allocated.
func inUse(list []core.Device) map[core.DeviceID]int64 {
	bytes := map[core.DeviceID]int64{}
	for _, d := range list {
		if p, ok := core.As[core.PoolController](d); ok {
			bytes[d.ID()] = p.PoolStats().InUse
		}
	}
	return bytes
}

// Processes that have exported memory of GPUs, and have opened that of the other process, are killed
// at random moments. The other process has nothing of them open afterwards.
func TestKilledProcessesWithMemoryOfDevices(t *testing.T) {
	kills := coretest.Times(6, 40, 200)
	coretest.CheckNoLeaks(t)
	random := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
	list, err := cards(t.Context())
	defer func() {
		for _, d := range slices.Backward(list) {
			if err := d.Close(); err != nil {
				t.Errorf("closing %v: %v", d.ID(), err)
			}
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 2 {
		t.Skip("this build has no device beside the host's")
	}
	trim := func() {
		for _, d := range list {
			if p, ok := core.As[core.PoolController](d); ok {
				p.TrimPool()
			}
		}
	}
	received := int64(0)
	run := func(after int64) {
		t.Run("", func(t *testing.T) {
			c, child := start(t, childCards, of(list...))
			delay := time.Duration(random.IntN(3)) * time.Millisecond
			var killed sync.WaitGroup
			killed.Go(func() {
				for c.Stats().Received < after && c.Err() == nil {
					time.Sleep(100 * time.Microsecond)
				}
				time.Sleep(delay)
				_ = child.Signal(syscall.SIGKILL)
			})
			err := cardTraffic(c, list)
			killed.Wait()
			if !errors.As(err, new(*ConnError)) || !errors.Is(err, core.ErrClosed) {
				t.Errorf("the survivor has the error %v", err)
			}
			_ = c.Close()
			received += c.Stats().Received
			if s := c.Stats(); s.InFlight != 0 || s.Held != 0 {
				t.Errorf("afterwards: %+v", s)
			}
		})
	}
	run(40) // the devices have made what they keep
	trim()
	descriptors, objects, mappings := coretest.SettledDescriptors(), driversObjects(t), mapped(t)
	bytes := inUse(list)
	for range kills {
		run(int64(random.IntN(60)))
	}
	t.Logf("%d processes were killed; %d tensors arrived", kills, received)
	until(t, fmt.Sprintf("the drivers have open what they had before, %v", objects), func() bool {
		trim()
		return maps.Equal(driversObjects(t), objects)
	})
	if now := inUse(list); !maps.Equal(now, bytes) {
		t.Errorf("bytes in use: %v, and before %v", now, bytes)
	}
	coretest.WantDescriptors(t, descriptors, "afterwards")
	until(t, "no memory of the killed processes is mapped", func() bool { return mapped(t) <= mappings })
}
