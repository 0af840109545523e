//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/vulkan/internal/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/staging"
)

// scenario uses all of a device, and returns the errors that it met. It closes all
// that it opened.
func scenario(ctx context.Context, opts ...option) error {
	return use(ctx, func(u *user) {
		u.copies()
		u.shares()
		u.orders()
		u.times()
	}, opts...)
}

// use opens a device, uses it, and returns the errors that it met. It closes all that was opened.
func use(ctx context.Context, steps func(u *user), opts ...option) error {
	d, err := newWith(opts...).Open(ctx, core.DeviceID{Type: core.DeviceVulkan})
	if err != nil {
		return err
	}
	u := &user{ctx: ctx, d: d}
	steps(u)
	for i := len(u.close) - 1; i >= 0; i-- {
		u.note(u.close[i]())
	}
	return errors.Join(u.failed, d.Close())
}

// user goes on after errors, as far as that makes sense.
type user struct {
	ctx    context.Context
	d      core.Device
	failed error
	close  []func() error
}

// note keeps an error, and reports whether there was none.
func (u *user) note(err error) bool {
	u.failed = errors.Join(u.failed, err)
	return err == nil
}

// tensor is nil where it could not be made.
func (u *user) tensor(o core.AllocOptions, shape ...int64) *core.Tensor {
	return u.kept(core.Empty(u.ctx, u.d, core.TypeFloat32, shape, o))
}

// pixels is a tensor of uint8, or nil where it could not be made.
func (u *user) pixels(shape ...int64) *core.Tensor {
	return u.kept(core.Empty(u.ctx, u.d, core.TypeUint8, shape, core.AllocOptions{}))
}

// kept takes the results of a call that makes a tensor, which is closed at the end.
func (u *user) kept(t *core.Tensor, err error) *core.Tensor {
	if !u.note(err) {
		return nil
	}
	u.close = append(u.close, t.Close)
	return t
}

func (u *user) stream() core.Stream {
	s, err := u.d.NewStream(u.ctx)
	if !u.note(err) {
		return nil
	}
	u.close = append(u.close, s.Close)
	return s
}

func (u *user) copy(s core.Stream, dst, src *core.Tensor) {
	if dst != nil && src != nil {
		u.note(u.d.Copy(u.ctx, s, dst, src))
	}
}

func (u *user) copies() {
	host, err := core.FromSlice(make([]float32, 64*64), 64, 64)
	u.note(err)
	u.close = append(u.close, host.Close)
	a, b := u.tensor(core.AllocOptions{}, 64, 64), u.tensor(core.AllocOptions{HostVisible: true}, 64, 64)
	s := u.stream()
	for _, on := range []core.Stream{nil, s} {
		u.copy(on, a, host)
		u.copy(on, b, a)
		u.copy(on, host, b)
	}
	for _, on := range []core.Stream{nil, s} { // to, from and within the device
		if c := u.tensor(core.AllocOptions{}, 64, 64); a != nil && c != nil {
			back, err := core.FromSlice(make([]float32, 64*64), 64, 64)
			u.note(err)
			u.close = append(u.close, back.Close)
			u.note(u.d.(core.BatchCopier).CopyBatch(u.ctx, on, []*core.Tensor{c, back}, []*core.Tensor{host, a}))
		}
	}
	if a != nil && b != nil { // more pieces than regions are used for
		across, err := a.Permute(1, 0)
		u.note(err)
		u.close = append(u.close, across.Close)
		u.copy(s, b, across)
	}
	if s != nil {
		u.note(s.Synchronize(u.ctx))
	}
}

// converts converts on the device, without a stream and on one, after a copy. It calls ready before the first conversion.
func (u *user) converts(ready func()) {
	converter, ok := core.As[core.Converter](u.d)
	if !ok {
		u.note(errors.New("the device does not convert"))
		return
	}
	a, b, pixels, s := u.tensor(core.AllocOptions{}, 64, 64), u.tensor(core.AllocOptions{}, 64, 64), u.pixels(64, 64), u.stream()
	if u.failed != nil {
		return
	}
	ready()
	scaling := core.Scaling{Scale: []float32{0.5}, Offset: []float32{1}}
	for _, on := range []core.Stream{nil, s} {
		u.copy(on, b, a)
		u.note(converter.ConvertOn(u.ctx, on, a, pixels, scaling))
	}
	u.note(s.Synchronize(u.ctx))
}

// times takes the time of a copy.
func (u *user) times() {
	clock, ok := core.As[core.DeviceClock](u.d)
	if !ok {
		return
	}
	s, err := clock.NewTimedStream(u.ctx)
	if !u.note(err) {
		return
	}
	u.close = append(u.close, s.Close)
	var marks []core.Mark
	mark := func() {
		if m, err := clock.Mark(s); u.note(err) {
			u.close = append(u.close, m.Close)
			marks = append(marks, m)
		}
	}
	mark()
	u.copy(s, u.tensor(core.AllocOptions{}, 64, 64), u.tensor(core.AllocOptions{}, 64, 64))
	mark()
	if u.note(s.Synchronize(u.ctx)) && len(marks) == 2 {
		_, err := marks[1].Since(marks[0])
		u.note(err)
	}
}

func (u *user) shares() {
	exporter, ok := core.As[core.MemoryExporter](u.d)
	if ok {
		if t := u.tensor(core.AllocOptions{Export: core.HandleOpaqueFD}, 1000); t != nil {
			b, _ := t.Buffer()
			x, err := exporter.ExportMemory(b, core.HandleOpaqueFD)
			if u.note(err) {
				m, err := u.d.(core.MemoryImporter).ImportMemory(u.ctx, x)
				if u.note(err) {
					m.Free()
				} else {
					_, empty := x.Handle.Number()
					u.note(errors.Join(empty, x.Close())) // the caller's, and open
				}
			}
		}
	}
	if mapper, ok := core.As[core.HostMapper](u.d); ok {
		host, err := core.FromSlice(make([]float32, 5000))
		u.note(err)
		b, _ := host.Buffer()
		m, err := mapper.MapHost(u.ctx, b)
		if u.note(err) {
			m.Free()
		}
		u.note(host.Close())
	}
}

func (u *user) orders() {
	s, other := u.stream(), u.stream()
	sem, err := u.d.(core.SemaphoreCreator).NewSemaphore(u.ctx, 0)
	if !u.note(err) || s == nil || other == nil {
		if err == nil {
			u.note(sem.Close())
		}
		return
	}
	waits := sem.WaitOn(s, 1)
	u.note(waits)
	t := u.tensor(core.AllocOptions{}, 100_000)
	v := u.tensor(core.AllocOptions{}, 100_000)
	u.copy(s, t, v)
	if !u.note(sem.Signal(other, 1)) && waits == nil {
		u.note(sem.Signal(other, 1)) // s waits for it
	}
	u.note(s.Synchronize(u.ctx))
	u.note(other.Synchronize(u.ctx))
	u.note(sem.Close())
}

// typed proves that every error in a tree of them tells backend and call.
func typed(t *testing.T, err error, what string) {
	t.Helper()
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			typed(t, e, what)
		}
		return
	}
	var e *core.Error
	if err != nil && !errors.As(err, &e) {
		t.Errorf("%s: error %v names neither backend nor call", what, err)
	}
}

func TestNothingIsLeakedWhereACallFails(t *testing.T) { failsOnce(t, false) }

func TestNothingIsLeakedWhereACallFailsWithSeveralQueues(t *testing.T) {
	useQueues(t)
	failsOnce(t, true)
}

// failsOnce lets each call fail once, at each of its first places. A quick test has one place and one kind of memory.
func failsOnce(t *testing.T, quickSeparate bool) {
	t.Helper()
	kinds, places := []bool{false, true}, 3
	if coretest.Quick() {
		kinds, places = []bool{quickSeparate}, 1
	}
	for _, separate := range kinds {
		opts := validated(t)
		if separate {
			opts = append(opts, separateMemory)
		}
		if err := scenario(t.Context(), opts...); err != nil {
			t.Fatalf("without a fault: %v", err)
		}
		for index, call := range faults.Calls() {
			t.Run(fmt.Sprintf("%s/separate=%v", call, separate), func(t *testing.T) {
				leavesNothing(t, func() {
					for skip := range places {
						faults.Once(index, skip, faults.OutOfDeviceMemory)
						err := scenario(t.Context(), opts...)
						if faults.Disarm() == 0 {
							break
						}
						typed(t, err, fmt.Sprintf("call %d of %s fails", skip+1, call))
					}
				})
			})
		}
	}
}

// Each call of a conversion, and of the copies around it, fails once; in a quick test the first call of each function.
func TestNothingIsLeakedWhereACallOfAConversionFails(t *testing.T) {
	met := make(map[string]bool)
	opts := append(validated(t), separateMemory)
	for index, call := range faults.Calls() {
		t.Run(call, func(t *testing.T) {
			leavesNothing(t, func() {
				for skip := 0; skip == 0 || !coretest.Quick(); skip++ {
					err := use(t.Context(), func(u *user) {
						u.converts(func() { faults.Once(index, skip, faults.OutOfDeviceMemory) })
					}, opts...)
					if faults.Disarm() == 0 {
						if err != nil {
							t.Errorf("without a fault: %v", err)
						}
						break
					}
					met[call] = true
					typed(t, err, fmt.Sprintf("call %d of %s fails", skip+1, call))
				}
			})
		})
	}
	for _, call := range []string{"vkCreateShaderModule", "vkCreateComputePipelines", "vkQueueSubmit"} {
		if !met[call] {
			t.Errorf("a conversion did not call %s", call)
		}
	}
}

// leavesNothing runs a function, and proves that no descriptor and no object stays open.
func leavesNothing(t *testing.T, run func()) {
	t.Helper()
	noMessages(t)
	before, live := descriptors()-leakedByTheDriver(t), core.Live()
	run()
	ours := func() int { return descriptors() - leakedByTheDriver(t) }
	for end := time.Now().Add(5 * time.Second); ours() > before && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if now := ours(); now > before {
		t.Errorf("%d descriptors were left open", now-before)
	}
	for kind, n := range core.Live() {
		if n > live[kind] {
			t.Errorf("%d of %s were left open", n-live[kind], kind)
		}
	}
}

// leakedByTheDriver counts descriptors that SwiftShader never closes: one for each shader that it compiles, whose code
// lies in a memory file of this name.
func leakedByTheDriver(t *testing.T) (n int) {
	t.Helper()
	const folder = "/proc/self/fd/"
	open, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if file, _ := os.Readlink(folder + fd.Name()); strings.HasPrefix(file, "/memfd:swiftshader_jit") {
			n++
		}
	}
	return n
}

func TestALostDeviceStaysLostAndNobodyWaits(t *testing.T) { getsLost(t) }

func TestALostDeviceWithSeveralQueuesStaysLostAndNobodyWaits(t *testing.T) {
	useQueues(t)
	getsLost(t)
}

// getsLost has a device lost while a stream waits for a semaphore.
func getsLost(t *testing.T) {
	t.Helper()
	d := open(t)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, b := row(t, d, 1<<20, core.AllocOptions{}), row(t, d, 1<<20, core.AllocOptions{})
	sem, err := d.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	behind, err := d.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sem.WaitOn(s, 1), behind.WaitOn(s, 1), d.Copy(t.Context(), s, a, b)); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 3)
	go func() { waits <- s.Synchronize(context.Background()) }()
	go func() { waits <- sem.Wait(context.Background(), 1) }()
	go func() { waits <- a.WaitReady(context.Background()) }()
	time.Sleep(10 * time.Millisecond)

	faults.Every(faults.DeviceLost)
	for range cap(waits) {
		select {
		case err := <-waits:
			wantError(t, err, core.ErrDeviceLost, "a wait when the device gets lost")
		case <-time.After(10 * time.Second):
			t.Fatal("a wait did not end when the device got lost")
		}
	}
	faults.Disarm()
	// It stays lost, though the driver would do the work.
	wantError(t, d.Copy(t.Context(), s, b, a), core.ErrDeviceLost, "Copy")
	_, err = s.Record()
	wantError(t, err, core.ErrDeviceLost, "Record")
	_, err = d.Alloc(t.Context(), 100, core.AllocOptions{})
	wantError(t, err, core.ErrDeviceLost, "Alloc")
	wantError(t, s.Close(), core.ErrDeviceLost, "Close of a stream with work")
	if err := errors.Join(sem.Close(), behind.Close()); err != nil { // behind's wait never began
		t.Errorf("Close of a semaphore: %v", err)
	}
	_, _ = a.Close(), b.Close()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		err := d.Close() // memory is freed soon
		if err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestAnEventTellsOfEveryItemSinceTheOneBefore(t *testing.T) {
	d := opened(t, separateMemory)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	// Larger than a piece of staging memory: several submissions, of which the first fails late.
	dst, src := row(t, d, 3*staging.PieceBytes, core.AllocOptions{}), keep(t)(core.FromSlice(make([]byte, 3*staging.PieceBytes)))
	for index, call := range faults.Calls() {
		if call == "vkQueueSubmit" {
			faults.Once(index, 0, faults.OutOfDeviceMemory)
		}
	}
	err = d.Copy(t.Context(), s, dst, src)
	if err == nil {
		err = dst.WaitReady(t.Context())
	}
	if faults.Disarm() != 1 {
		t.Fatal("the fault was not met")
	}
	wantError(t, err, core.ErrOutOfMemory, "the copy and its event")
	if err := s.Synchronize(t.Context()); err != nil {
		wantError(t, err, core.ErrOutOfMemory, "Synchronize")
	}
	put(t, d, dst, pattern(3*staging.PieceBytes, 1))
}
