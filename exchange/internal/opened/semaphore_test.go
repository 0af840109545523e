package opened

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// fakeDevice is a device that never closes.
type fakeDevice struct{ core.Device }

func (*fakeDevice) BeforeClose(func()) func() { return func() {} }

// fakeStream is a stream that records one event only.
type fakeStream struct {
	core.Stream
	device core.Device
	event  core.Event
	wait   error // of Wait
}

func (s *fakeStream) Device() core.Device         { return s.device }
func (s *fakeStream) Wait(core.Event) error       { return s.wait }
func (s *fakeStream) Record() (core.Event, error) { return s.event, nil }

// fakeBinary is a binary semaphore that does nothing.
type fakeBinary struct{ core.BinarySemaphore }

func (fakeBinary) Signal(core.Stream, uint64) error { return nil }
func (fakeBinary) WaitOn(core.Stream, uint64) error { return nil }
func (fakeBinary) Close() error                     { return nil }

// lookUp is an event that is done. When it is asked, it uses the cache.
type lookUp struct{ cache *Cache }

func (e lookUp) Done() (bool, error) {
	e.cache.Find(Key{})
	return true, nil
}

func (e lookUp) Wait(context.Context) error { return nil }

func TestTheCacheIsNotLockedWhileASemaphoreIsAsked(t *testing.T) {
	c := New()
	a, b := &fakeDevice{}, &fakeDevice{}
	from := &fakeStream{device: a, event: lookUp{c}}
	to := &fakeStream{device: b, event: lookUp{c}, wait: core.ErrNotSupported}
	if !c.watch(a) || !c.watch(b) {
		t.Fatal("a device is not watched")
	}
	x, err := core.FromSlice([]int8{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	root, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	written := stream.NewEvent()
	defer written.Complete(nil)
	root.Wrote(written)
	s := &semaphore{SharedSemaphore: stream.NewSharedSemaphore(fakeBinary{}, fakeBinary{}), waits: b}
	if how, err := s.Handoff(t.Context(), x, from, to); how != stream.SemaphoreWait || err != nil {
		t.Fatal(how, err)
	}
	c.giveSemaphore(a, s, to)
	taken, _, err := c.Semaphore(t.Context(), from, to)
	if taken != s.SharedSemaphore || err != nil {
		t.Errorf("the idle semaphore is not taken: %v, %v", taken, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
