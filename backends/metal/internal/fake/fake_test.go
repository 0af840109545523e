package fake

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// scene is a machine with what most rules are about.
type scene struct {
	*Driver
	device, queue, event, private, shared driver.ID
}

func newScene(c Config) *scene {
	d := New(c)
	s := &scene{Driver: d, device: d.CopyDevices()[0]}
	d.Release(d.devices[1])
	s.queue, s.event = d.NewCommandQueue(s.device, 64), d.NewSharedEvent(s.device)
	s.private, s.shared = d.NewBuffer(s.device, 256, driver.StoragePrivate), d.NewBuffer(s.device, 256, driver.StorageShared)
	return s
}

// end releases everything and returns the misuse.
func (s *scene) end() string {
	for _, id := range []driver.ID{s.queue, s.event, s.private, s.shared, s.device} {
		s.Release(id)
	}
	return strings.Join(s.Check(), "\n")
}

// run commits a command buffer of what f encodes, and waits for it.
func (s *scene) run(f func(c driver.ID)) (failed *driver.Error) {
	done := make(chan *driver.Error, 1)
	s.Pool(func() {
		c := s.CommandBuffer(s.queue)
		f(c)
		s.Commit(c, func(err *driver.Error) { done <- err })
	})
	return <-done
}

// blit runs one copy.
func (s *scene) blit(dst driver.ID, to uint64, src driver.ID, from, size uint64) {
	s.run(func(c driver.ID) {
		e := s.BlitEncoder(c)
		s.CopyBuffer(e, dst, to, src, from, size)
		s.EndEncoding(e)
	})
}

// convert launches the kernel that converts 64 bytes to float32, after change has changed the launch.
func (s *scene) convert(change func(k *gpuconvert.Constants, size *int, threads *uint32)) {
	k := gpuconvert.Constants{Count: 64, Channels: 1, N: [4]uint32{64, 1, 1, 1}, DstStep: [4]int32{1}, SrcStep: [4]int32{1}}
	size, threads := int(unsafe.Sizeof(k)), uint32(gpuconvert.GroupSize)
	change(&k, &size, &threads)
	l, _ := s.NewLibrary(s.device, gpuconvert.MSL())
	f := s.NewFunction(l, gpuconvert.Kernel)
	p, _, _ := s.NewPipeline(s.device, f)
	s.run(func(c driver.ID) {
		e := s.ComputeEncoder(c)
		s.SetPipeline(e, p)
		s.SetBuffer(e, s.private, 0, 0)
		s.SetBuffer(e, s.shared, 0, 1)
		s.SetBytes(e, unsafe.Slice((*byte)(unsafe.Pointer(&k)), size), 2)
		s.Dispatch(e, [3]uint32{1, 1, 1}, [3]uint32{threads, 1, 1})
		s.EndEncoding(e)
	})
	for _, id := range []driver.ID{p, f, l} {
		s.Release(id)
	}
}

// Each broken rule is reported, and nothing that keeps them is.
func TestBrokenRulesAreReported(t *testing.T) {
	for _, c := range []struct {
		name, want string
		f          func(s *scene)
	}{
		{"nothing", "", func(s *scene) { s.blit(s.private, 4, s.shared, 0, 252) }},
		{"a wait for a committed signal", "", func(s *scene) {
			s.run(func(c driver.ID) { s.EncodeSignal(c, s.event, 3) })
			s.run(func(c driver.ID) { s.EncodeWait(c, s.event, 3) })
		}},
		{"a copy that is not of words", "multiples of 4", func(s *scene) { s.blit(s.private, 0, s.shared, 2, 4) }},
		{"a copy that leaves its buffer", "copyFromBuffer: of 8 bytes", func(s *scene) { s.blit(s.private, 252, s.shared, 0, 8) }},
		{"ranges that overlap", "overlap", func(s *scene) { s.blit(s.private, 0, s.private, 4, 8) }},
		{"an encoder that is not ended", "has an open encoder", func(s *scene) {
			s.run(func(c driver.ID) { s.EndEncoding(s.BlitEncoder(c)); s.ComputeEncoder(c) })
		}},
		{"a signal inside a pass", "has an open encoder", func(s *scene) {
			s.run(func(c driver.ID) { e := s.BlitEncoder(c); s.EncodeSignal(c, s.event, 1); s.EndEncoding(e) })
		}},
		{"an encoder that is used after its end", "after endEncoding", func(s *scene) {
			s.run(func(c driver.ID) {
				e := s.BlitEncoder(c)
				s.EndEncoding(e)
				s.CopyBuffer(e, s.private, 0, s.shared, 0, 4)
			})
		}},
		{"a wait for what nobody signals", "longer than the system allows", func(s *scene) {
			done := make(chan struct{})
			s.Pool(func() {
				c := s.CommandBuffer(s.queue)
				s.EncodeWait(c, s.event, 1)
				s.Commit(c, func(*driver.Error) { close(done) })
			})
			s.SetValue(s.event, 1)
			<-done
		}},
		{"a value that falls", "falls from 2 to 1", func(s *scene) { s.SetValue(s.event, 2); s.SetValue(s.event, 1) }},
		{"a command buffer that is committed twice", "committed twice", func(s *scene) {
			done := make(chan struct{})
			s.Pool(func() {
				c := s.CommandBuffer(s.queue)
				s.Commit(c, func(*driver.Error) { close(done) })
				s.Commit(c, func(*driver.Error) { t.Error("carried out twice") })
			})
			<-done
		}},
		{"an object without a pool", "without a pool", func(s *scene) {
			c := s.CommandBuffer(s.queue)
			s.Release(c)
		}},
		{"an object after its pool", "does not exist", func(s *scene) {
			var c driver.ID
			s.Pool(func() { c = s.CommandBuffer(s.queue) })
			s.EncodeSignal(c, s.event, 1)
		}},
		{"one release too many", "is released, and does not exist", func(s *scene) {
			b := s.NewBuffer(s.device, 4, driver.StorageShared)
			s.Release(b)
			s.Release(b)
		}},
		{"a leak", "MTLBuffer", func(s *scene) { s.NewBuffer(s.device, 4, driver.StorageShared) }},
		{"an event that is released too early", "is deallocated", func(s *scene) {
			e := s.NewSharedEvent(s.device)
			s.SetValue(e, 1)
			s.run(func(c driver.ID) { s.EncodeWait(c, e, 1); s.Release(e) })
		}},
		{"host memory that does not begin on a page", "newBufferWithBytesNoCopy", func(s *scene) {
			s.Release(s.NewBufferNoCopy(s.device, 0x1001, 4096, driver.StorageShared, nil))
		}},
		{"a conversion", "", func(s *scene) { s.convert(func(*gpuconvert.Constants, *int, *uint32) {}) }},
		{"a conversion beyond its destination", "leaves its buffers", func(s *scene) {
			s.convert(func(k *gpuconvert.Constants, _ *int, _ *uint32) { k.DstFirst = 1 })
		}},
		{"a conversion before its source", "leaves its buffers", func(s *scene) {
			s.convert(func(k *gpuconvert.Constants, _ *int, _ *uint32) { k.Channels, k.ChannelSrc = 2, -1 })
		}},
		{"a conversion of an unknown type", "got the constants", func(s *scene) {
			s.convert(func(k *gpuconvert.Constants, _ *int, _ *uint32) { k.Kinds = 0x70 })
		}},
		{"a conversion with constants cut off", "bytes of constants", func(s *scene) {
			s.convert(func(_ *gpuconvert.Constants, size *int, _ *uint32) { *size -= 4 })
		}},
		{"a conversion by other threads", "threadgroups of 64", func(s *scene) {
			s.convert(func(_ *gpuconvert.Constants, _ *int, threads *uint32) { *threads = 32 })
		}},
		{"another object", "is used as a", func(s *scene) { s.Value(s.queue) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(Config{Devices: 2})
			c.f(s)
			got := s.end()
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("reported %q, want %q", got, c.want)
			}
		})
	}
}

// A command buffer that waits too long ends with an error and does not signal.
func TestTheWatchdog(t *testing.T) {
	s := newScene(Config{Devices: 2, Watchdog: time.Millisecond})
	err := s.run(func(c driver.ID) { s.EncodeWait(c, s.event, 1); s.EncodeSignal(c, s.event, 2) })
	if err == nil || err.Code != driver.ErrTimeout || s.Value(s.event) != 0 {
		t.Errorf("%v, value %d", err, s.Value(s.event))
	}
	s.end()
}

// commandBuffer blocks while the queue is full.
func TestAFullQueueBlocks(t *testing.T) {
	s := newScene(Config{Devices: 2})
	s.Release(s.queue)
	s.queue = s.NewCommandQueue(s.device, 2)
	s.SetValue(s.event, 1)
	held := make(chan struct{}, 2)
	for range 2 {
		s.Pool(func() {
			c := s.CommandBuffer(s.queue)
			s.EncodeWait(c, s.event, 2)
			s.Commit(c, func(*driver.Error) { held <- struct{}{} })
		})
	}
	third := make(chan struct{})
	go func() {
		defer close(third)
		s.Pool(func() { s.CommandBuffer(s.queue) })
	}()
	for end := time.Now().Add(time.Minute); s.Blocked() == 0; time.Sleep(time.Millisecond) {
		select {
		case <-third:
			t.Fatal("a third command buffer was made")
		default:
		}
		if time.Now().After(end) {
			t.Fatal("nobody waits for room in the queue")
		}
	}
	s.SetValue(s.event, 2)
	<-held
	<-held
	<-third
	// Nothing but the two waits for a value that only the host signals, and nothing is left.
	if misuse := s.end(); strings.Count(misuse, "longer than the system allows") != 2 || strings.Contains(misuse, "is left") {
		t.Error(misuse)
	}
}

// A wait that ends by its time limit must not miss its own wake-up, for nothing else wakes it. Short limits end while the
// waiter is still on its way to sleep.
func TestWaitValueEndsInTime(t *testing.T) {
	s := newScene(Config{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range 2_000 {
			if s.WaitValue(s.event, 1, time.Duration(i%40)*500*time.Nanosecond) {
				t.Error("the value was not reached, and the wait says that it was")
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("a wait does not end") // its goroutine is lost, too
	}
	if misuse := s.end(); misuse != "" {
		t.Error(misuse)
	}
}
