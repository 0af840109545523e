package cmdqueue_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// device is a device whose buffers are memory of the host. Copies never reach plain memory by its address.
type device struct {
	cmdqueue.Device[*queue, *buffer]
	most uint64 // of its streams

	mu      sync.Mutex
	changed sync.Cond
	paused  bool    // commands do not run
	panics  bool    // adding copies does
	refuse  []error // of the next commands; nil for one that succeeds
	buffers map[uintptr]*buffer
	made    int // buffers for staging that were not destroyed
}

type (
	item    = cmdqueue.Item[*queue]
	event   = cmdqueue.Event[*queue]
	operand = cmdqueue.Operand[*buffer]
	copying = cmdqueue.Copy[*buffer]
)

// buffer is memory of the device.
type buffer struct{ bytes []byte }

func (b *buffer) address() uintptr            { return uintptr(unsafe.Pointer(unsafe.SliceData(b.bytes))) }
func (b *buffer) HostAt(offset int64) uintptr { return b.address() + uintptr(offset) }
func (b *buffer) Bytes() int64                { return int64(len(b.bytes)) }

// open opens a device, which the end of the test closes. Nothing may be left then.
func open(tb testing.TB, most uint64) *device {
	d := &device{most: most, buffers: make(map[uintptr]*buffer)}
	d.changed.L = &d.mu
	id := core.DeviceID{Type: core.DeviceExt}
	d.Init(d, core.Properties{ID: id, Alignment: 1, Capabilities: core.CapAsync | core.CapBatchCopy})
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
		if d.made != 0 {
			tb.Errorf("%d buffers for staging are left", d.made)
		}
	})
	return d
}

func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		d.Finished()
		d.DestroyStaging()
		return nil
	})
}

func (d *device) Alloc(_ context.Context, size int64, _ core.AllocOptions) (core.Memory, error) {
	b := &buffer{make([]byte, size)}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.buffers[b.address()] = b
	m := core.Memory{ID: d.ID(), Handle: b.address(), Size: size}
	return d.HandOut(m, func() { delete(d.buffers, b.address()) }, nil), nil
}

func (d *device) OperandOf(t *core.Tensor) (operand, error) {
	m, host, err := d.Locate(t)
	if err != nil || host {
		return operand{Tensor: t, At: m.Handle}, err
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return operand{Tensor: t, Object: d.buffers[m.Handle]}, nil
}

func (d *device) NewStaging(size int64) (*buffer, error) {
	if most := d.MaxStaging; most > 0 && size > most {
		return nil, core.Errorf(core.ErrInvalid, "test", "NewStaging", "%d bytes are more than %d", size, most)
	}
	d.made++
	return &buffer{make([]byte, size)}, nil
}

func (d *device) Destroy(*buffer) { d.made-- }

func (d *device) Joins(c copying) bool { return len(c.Geometry.Axes) == 0 }

func (d *device) AddCopy(q *queue, c copying) error { return d.AddCopies(q, []copying{c}) }

func (d *device) AddCopies(q *queue, list []copying) error {
	if d.panics {
		panic("a panic of the test")
	}
	return q.Add(item{Commands: commands(func() {
		for _, c := range list {
			_ = hostcopy.Run(c.Dst.address(), c.Src.address(), c.Geometry, false, 1)
		}
	})})
}

// pause stops the commands that were not begun, and resume lets them run.
func (d *device) pause() { d.set(func() { d.paused = true }) }

func (d *device) resume() { d.set(func() { d.paused = false }) }

// fail makes the next commands fail: those whose error is not nil.
func (d *device) fail(errs ...error) { d.set(func() { d.refuse = errs }) }

func (d *device) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	d.changed.Broadcast()
}

// queue is a stream. Its timeline is value.
type queue struct {
	cmdqueue.Queue[*queue]
	device  *device
	value   uint64 // guarded by the device's mu
	refused int
	left    bool
	kept    int // guarded by the device's mu
}

var _ cmdqueue.Driver = (*queue)(nil)

func (d *device) NewQueue() (*queue, error) {
	q := &queue{device: d}
	q.Init(q, q, &d.Base, commands(func() {}), 0, d.most)
	return q, nil
}

func (d *device) stream(tb testing.TB) *queue {
	s, err := d.NewStream(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil && d.LostError() == nil {
			tb.Error(err)
		}
	})
	return s.(*queue)
}

func (q *queue) Device() core.Device     { return q.device }
func (q *queue) Native() uintptr         { return 0 }
func (q *queue) Refused()                { q.refused++ }
func (q *queue) Keep()                   { q.device.set(func() { q.kept++ }) }
func (q *queue) Drop()                   { q.device.set(func() { q.kept-- }) }
func (q *queue) Leave(_ uint64, _ error) { q.left = true }

func (q *queue) Has(number uint64) bool {
	q.device.mu.Lock()
	defer q.device.mu.Unlock()
	return q.value >= number
}

func (q *queue) Ask(context.Context, uint64) { time.Sleep(10 * time.Microsecond) }

// Await ends at once if the device is lost.
func (q *queue) Await(number uint64) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	for q.value < number && d.LostError() == nil {
		d.changed.Wait()
	}
	if q.value < number {
		return d.LostError()
	}
	return nil
}

func (q *queue) Finish(number uint64) error {
	q.device.set(func() { q.value = max(q.value, number) })
	return nil
}

func (q *queue) Ended() error {
	if q.Hosting() {
		return nil
	}
	return q.device.LostError()
}

// Wait is the least that a backend does.
func (q *queue) Wait(e core.Event) error {
	own, ok := backendkit.UnwrapEvent(e).(*event)
	if !ok {
		return q.device.Errorf(core.ErrNotSupported, "Wait", "%T is another event", e)
	}
	if own.Queue() == q {
		return nil
	}
	if err := q.Enter("Wait"); err != nil {
		return err
	}
	defer q.Mu.Unlock()
	q.Follow(own)
	return nil
}

// add adds an item.
func (q *queue) add(tb testing.TB, i item) error {
	tb.Helper()
	if err := q.Enter("test"); err != nil {
		tb.Fatal(err)
	}
	defer q.Mu.Unlock()
	return q.Add(i)
}

// commands are work of the device, which runs in a goroutine.
type commands func()

func (f commands) Submit(q *queue, i item) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.refuse) > 0 {
		err := d.refuse[0]
		d.refuse = d.refuse[1:]
		if err != nil {
			return err
		}
	}
	before := append([]cmdqueue.Point(nil), i.Before...)
	for _, p := range before {
		p.(*event).Queue().kept++
	}
	go func() {
		for _, p := range before {
			_ = p.Await()
			p.Drop()
		}
		_ = q.Await(i.Number - 1)
		d.mu.Lock()
		for d.paused {
			d.changed.Wait()
		}
		d.mu.Unlock()
		f()
		_ = q.Finish(i.Number)
	}()
	return nil
}

// sequence is the order in which work ran.
type sequence struct {
	mu   sync.Mutex
	list bytes.Buffer
}

func (s *sequence) add(c byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list.WriteByte(c)
}

func (s *sequence) commands(c byte) commands { return func() { s.add(c) } }

func (s *sequence) host(c byte) func() error {
	return func() error { s.add(c); return nil }
}

func (s *sequence) want(tb testing.TB, list string) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.list.String(); got != list {
		tb.Errorf("the work ran in the order %q, want %q", got, list)
	}
}

var errTest = errors.New("by the test")
