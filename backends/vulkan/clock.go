//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// timestamp is one query of a pool, and the reading that uses it.
type timestamp struct {
	pool  uint64
	index int
	queue atomic.Int32 // the VkQueue that takes it, as in driver.Submission
	event *event       // of the reading
}

// timestamps are the query pools of a device, and the timestamps that no mark has.
type timestamps struct {
	mu    sync.Mutex
	pools []uint64
	spare []*timestamp // the one whose mark was closed first stands first
}

// timestampsOfPool is how many timestamps a pool has.
const timestampsOfPool = 64

// take returns a timestamp that is not in use. The caller returns it by put.
func (ts *timestamps) take(d *driver.Device) (*timestamp, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.spare) > 0 && ts.spare[0].isFree() {
		t := ts.spare[0]
		ts.spare = ts.spare[1:]
		t.event = nil
		return t, nil
	}
	pool, err := d.NewTimestamps(timestampsOfPool)
	if err != nil {
		return nil, err
	}
	ts.pools = append(ts.pools, pool)
	fresh := make([]*timestamp, timestampsOfPool)
	for i := range fresh {
		fresh[i] = &timestamp{pool: pool, index: i}
	}
	ts.spare = append(fresh[1:], ts.spare...)
	return fresh[0], nil
}

// isFree reports whether no work will take the timestamp any more.
func (t *timestamp) isFree() bool {
	if t.event == nil {
		return true
	}
	done, _ := t.event.Done()
	return done
}

func (ts *timestamps) put(t *timestamp) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.spare = append(ts.spare, t)
}

// destroy destroys the pools, which no work uses.
func (ts *timestamps) destroy(d *driver.Device) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, pool := range ts.pools {
		d.DestroyTimestamps(pool)
	}
	ts.pools, ts.spare = nil, nil
}

// newClock makes the clock of a device.
func (d *device) newClock() devicebase.Clock[*timestamp] {
	return devicebase.Clock[*timestamp]{Device: &d.Base.Device, Lost: d.LostError, Between: d.between, Release: d.timestamps.put}
}

// between returns the time between two timestamps. Vulkan compares those of one VkQueue only, unless the device has one
// time domain for all timestamps, which an extension brings.
func (d *device) between(from, to *timestamp) (time.Duration, error) {
	if from.queue.Load() != to.queue.Load() && !d.physical.OneClock() {
		return 0, errorf(core.ErrNotSupported, "Since", "the driver does not compare the timestamps of different VkQueues: it lacks VK_KHR_calibrated_timestamps")
	}
	start, err := d.driver.Timestamp(from.pool, from.index)
	if err != nil {
		return 0, d.NoteLoss(err)
	}
	end, err := d.driver.Timestamp(to.pool, to.index)
	if err != nil {
		return 0, d.NoteLoss(err)
	}
	return elapsed(start, end, d.physical.TimestampBits, d.physical.TimestampPeriod), nil
}

// elapsed returns the time between two timestamps, of which only some bits count: it is negative if the difference is
// at least half of what they can count to.
func elapsed(start, end uint64, bits int, period float64) time.Duration {
	unused := 64 - bits
	steps := int64((end-start)<<unused) >> unused
	return time.Duration(math.Round(float64(steps) * period))
}

// NewTimedStream is NewStream: every stream can be timed. All streams share the first VkQueue, so that the time also
// contains what other streams do there.
func (d *device) NewTimedStream(ctx context.Context) (core.Stream, error) {
	if err := d.Info.Require(core.CapDeviceClock, "NewTimedStream"); err != nil {
		return nil, err
	}
	return d.NewStream(ctx)
}

// ClockResolution returns timestampPeriod.
func (d *device) ClockResolution() time.Duration {
	return max(time.Duration(math.Ceil(d.physical.TimestampPeriod)), 1)
}

// Mark enqueues a command that takes a timestamp.
func (d *device) Mark(s core.Stream) (core.Mark, error) {
	const call = "Mark"
	if err := d.Info.Require(core.CapDeviceClock, call); err != nil {
		return nil, err
	}
	return d.clock.Mark(func() (*timestamp, core.Event, error) {
		q, err := d.StreamOf(call, s)
		if err != nil {
			return nil, nil, err
		}
		t, err := d.timestamps.take(d.driver)
		if err != nil {
			return nil, nil, d.NoteLoss(err)
		}
		if t.event, err = q.takeTime(call, t); err != nil {
			d.timestamps.put(t)
			return nil, nil, err
		}
		return t, t.event, nil
	})
}

// takeTime adds an item that takes a timestamp, and returns its event. The next event of the stream reports again the
// errors that this one reports.
func (q *queue) takeTime(call string, t *timestamp) (*event, error) {
	if err := q.Enter(call); err != nil {
		return nil, err
	}
	defer q.Mu.Unlock()
	if err := q.Add(item{Commands: t}); err != nil {
		return nil, err
	}
	return q.Recorded(), nil
}

func (t *timestamp) Submit(q *queue, i item) error { return q.submit(i, t) }

func (t *timestamp) record(q *queue, i item, c *command) error {
	t.queue.Store(int32(q.stay(i.Number))) // where it is submitted; as soon as that is done, Since may ask
	return q.device.driver.RecordTimestamp(c.handle, t.pool, t.index)
}
