//go:build cgo

package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// childOrdered sends tensors whose work is unfinished.
const childOrdered = "ordered"

var _ = role(childOrdered, sendOrdered)

func sendOrdered() error {
	ctx := context.Background()
	x, err := openCard(ctx)
	if err != nil {
		return err
	}
	c, err := inherited([]core.Device{x.device, x.timelines})
	if err != nil {
		return err
	}
	type slot struct {
		*work
		tensor *core.Tensor
	}
	var slots [3]slot
	for i := range slots {
		s := &slots[i]
		if s.work, err = x.newWork(ctx); err == nil {
			s.tensor, err = core.Empty(ctx, x.device, core.TypeInt32, []int64{workWords}, opaqueFD)
		}
		if err != nil {
			return err
		}
	}
	var before *slot
	for round := int32(0); ; round++ { // until it is killed
		s := &slots[round%int32(len(slots))]
		err := s.tensor.WaitIdle(ctx)
		if err == nil {
			err = c.Err()
		}
		if err == nil {
			err = s.write(ctx, s.tensor, round)
		}
		if err == nil {
			_, err = c.SendLabeled(ctx, s.tensor, fmt.Sprint(round))
		}
		if before != nil && err == nil {
			err = before.let()
		}
		if err != nil {
			return err
		}
		before = s
	}
}

// Processes are killed while the work on what they have sent is unfinished. The survivor's device goes on, what
// was written is right, and what was not is an error.
func TestKilledProcessesWithUnfinishedWork(t *testing.T) {
	kills := 60
	if coretest.Quick() || coretest.Sanitized {
		kills = 8
	}
	x := newCard(t)
	coretest.CheckNoLeaks(t)
	before := coretest.SettledDescriptors()
	random := rand.New(rand.NewPCG(2, uint64(time.Now().UnixNano())))
	whole, lost := 0, 0
	for range kills {
		t.Run("", func(t *testing.T) {
			c, child := start(t, childOrdered, x.options())
			s, ahead := newStream(t, x.device), random.IntN(20)
			for n := 0; ; n++ {
				y, r, err := c.Receive(t.Context(), x.device)
				if err != nil {
					if !errors.As(err, new(*ConnError)) {
						t.Error(err)
					}
					return
				}
				z := copied(t, x.device, s, y)
				if n == ahead { // with what it has sent since unfinished
					_ = child.Kill()
				}
				y.Close()
				switch err := z.WaitReady(t.Context()); {
				case err == nil:
					want, _ := strconv.Atoi(r.Label)
					wantWords(t, z, int32(want))
					whole++
				case errors.As(err, new(*ConnError)):
					lost++
				default:
					t.Error(err)
				}
				z.Close()
			}
		})
	}
	t.Logf("%d processes were killed; %d tensors arrived whole, %d were lost", kills, whole, lost)
	if whole == 0 || lost == 0 {
		t.Error("want some that arrive and some that are lost")
	}
	coretest.WantDescriptors(t, before, "afterwards")
}
