//go:build cgo

package share

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// A peer that breaks the rules for semaphores loses the connection. A semaphore that never comes
// holds no device up, and a file that is no semaphore is not used.
func TestHostileSemaphores(t *testing.T) {
	ordered := func(m *tensorMessage) { m.order, m.by, m.value = objectSemaphore, 2, 1 }
	done := func(x *intruder) {
		x.write(x.message(kindOrder, 0, appendResult(nil, result{tensor: 1, missing: x.missing})))
	}
	for _, c := range []struct {
		name string
		do   func(x *intruder, semaphore func(id uint32))
		want error // nil if the tensor arrives
	}{
		{"the number of a memory", func(x *intruder, semaphore func(uint32)) { semaphore(1) }, core.ErrInvalid},
		{"a semaphore twice", func(x *intruder, semaphore func(uint32)) { semaphore(2); semaphore(2) }, core.ErrInvalid},
		{"the end of a semaphore that is waited for", func(x *intruder, semaphore func(uint32)) {
			semaphore(2)
			x.tensor(ordered)
			x.write(x.message(kindForget, 0, appendForget(nil, 2)))
		}, core.ErrInvalid},
		{"two results", func(x *intruder, semaphore func(uint32)) {
			semaphore(2)
			x.tensor(ordered)
			done(x)
			done(x)
		}, core.ErrInvalid},
		{"too many", func(x *intruder, semaphore func(uint32)) {
			for i := range uint32(100) {
				semaphore(2 + i)
			}
		}, core.ErrOutOfMemory},
		{"a semaphore that nobody signals", func(x *intruder, semaphore func(uint32)) {
			semaphore(2)
			x.tensor(ordered)
		}, nil},
		{"a semaphore that will not be signalled", func(x *intruder, semaphore func(uint32)) {
			semaphore(2)
			x.tensor(ordered)
			x.missing = true
		}, nil},
		{"what is no semaphore", func(x *intruder, semaphore func(uint32)) {
			_, fd := x.memory(4096, 4096, core.HandleMemFD, unix.F_SEAL_SHRINK)
			x.write(x.message(kindOrder, 1, appendObject(nil, 2, objectSemaphore, x.semaphore(fd))), fd)
			x.tensor(ordered)
			x.hostWaits = true
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			y, d := newCard(t), host(t)
			mine, theirs := pair(t)
			a := made(t, mine, Options{Devices: []core.Device{y.device, d}, Limits: Limits{Tensors: 4}})
			x := &intruder{t: t, socket: theirs, uuid: y.device.Properties().UUID}
			timeline, err := y.timelines.sim.NewTimeline()
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(timeline.FD)
			x.hello()
			x.pass()
			c.do(x, func(id uint32) {
				x.write(x.message(kindOrder, 1, appendObject(nil, id, objectSemaphore, x.semaphore(timeline.FD))), timeline.FD)
			})
			if c.want != nil {
				<-a.Done()
				if err := a.Err(); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				return
			}
			if x.hostWaits {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if _, _, err := a.Receive(ctx, y.device); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Receive returns %v", err)
				}
				done(x)
				receive(t, a, y.device)
				return
			}
			got, r := receive(t, a, y.device)
			e := got.Ready()
			if e == nil {
				t.Fatalf("it counts as written: %v", r)
			}
			done(x)
			if err := e.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A peer that releases a tensor before it can know that its elements are there loses the
// connection.
func TestAnEarlyRelease(t *testing.T) {
	a := newCard(t)
	mine, theirs := pair(t)
	sender := made(t, mine, a.options())
	x := &intruder{t: t, socket: theirs}
	x.write(x.message(kindHello, 0, appendHello(nil, hello{features: featureOrder, limits: Limits{Tensors: 4, Memories: 4, Bytes: 1 << 30}, devices: []PeerDevice{describe(a.device)}})))
	w, sent := begun(t, a), onCard(t, a.device, opaqueFD)
	if err := w.write(t.Context(), sent, 7); err != nil {
		t.Fatal(err)
	}
	if r := send(t, sender, sent); r.Wait != stream.SemaphoreWait {
		t.Fatalf("sent: %v", r)
	}
	x.write(x.message(kindReleased, 0, appendReleased(nil, []uint64{1})))
	<-sender.Done()
	if err := sender.Err(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

// Semaphores count as descriptors of the user until the peer takes them back.
func TestUserLimitOfSemaphores(t *testing.T) {
	y := newCard(t)
	q := quotasOf(t, UserLimits{Descriptors: 3})
	mine, theirs := pair(t)
	a := limited(t, q, mine, Options{Devices: []core.Device{y.device}})
	x := &intruder{t: t, socket: theirs, uuid: y.device.Properties().UUID}
	timeline, err := y.timelines.sim.NewTimeline()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(timeline.FD)
	semaphore := func(id uint32) {
		x.write(x.message(kindOrder, 1, appendObject(nil, id, objectSemaphore, x.semaphore(timeline.FD))), timeline.FD)
	}
	x.hello()
	for id := range uint32(10) {
		semaphore(1 + id)
		x.write(x.message(kindForget, 0, appendForget(nil, 1+id)))
	}
	for id := range uint32(3) {
		semaphore(100 + id)
	}
	wantOver(t, a, "semaphores")
}
