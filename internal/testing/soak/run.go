package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
	"github.com/dlx-go/dlx/stream"
)

// errKernel is what work of a program fails with where the program wants it to.
var errKernel = errors.New("the program's kernel failed")

// errNoWay stands for an error around [*exchange.NoWayError].
var errNoWay = errors.New("no way")

// hangs is what a process says that ends since a program does not.
const hangs = "the program hangs"

// errNothing stands for an error that did not come.
var errNothing = errors.New("nothing fails")

// errSkip says that a step did nothing, since what it needs is not there.
var errSkip = errors.New("nothing to do")

// World is what all programs of a process share.
type World struct {
	Devices []*Device // the host's first
	Cover   *Coverage
	Tight   bool          // descriptors or memory are short: calls may fail for that
	Timeout time.Duration // of a program
	Peer    *parts.Peer   // another process, which sends tensors back; nil if there is none
}

// Device is a device that programs use.
type Device struct {
	Name string // as [core.ParseDevice] reads it
	Open func(context.Context) (core.Device, error)
	core.Device

	private  bool
	number   int  // of the variable of a private device
	renderer bool // its context is the program's
	closed   bool
	users    int // tensors and streams of the program that are open; of a private device
}

// pinnedTypes are the types of pinned memory, by the devices that have it.
var pinnedTypes = map[core.DeviceType]core.DeviceType{core.DeviceCUDA: core.DeviceCUDAHost, core.DeviceROCM: core.DeviceROCMHost}

// pinnedType is that of the device, 0 if it has none.
func (d *Device) pinnedType() core.DeviceType { return pinnedTypes[d.ID().Type] }

// managed reports whether the device has managed memory that DLPack has a type for.
func (d *Device) managed() bool { return d.ID().Type == core.DeviceCUDA }

func (d *Device) has(c core.Capabilities) bool { return d.Properties().Capabilities.Has(c) }

// run is a program that is being run.
type run struct {
	world  *World
	seed   uint64
	ctx    context.Context
	queue  *stream.Queue
	page   []byte
	vars   []*variable
	stream []*streamVar
	events []core.Event
	device []*Device // opened by the program
	links  []*linkVar
	gifts  []chan *variable

	mu    sync.Mutex
	errs  []error
	files []core.ExternalMemory // that are to be closed at the end
	later sync.WaitGroup        // of reading work
}

// variable is a tensor of the program.
type variable struct {
	place
	name     string
	tensor   *core.Tensor
	root     *core.Buffer // that keeps the order of the memory
	dev      *Device      // the device that the tensor belongs to, nil for memory of nobody's
	involved []*Device    // those that cannot close while the tensor is open
	closed   bool
	shared   bool // by all threads, for reading
}

type streamVar struct {
	core.Stream
	dev    *Device
	slot   int // its place among the program's streams
	closed bool

	// It has waited for work that failed: a queue passes that on to the work behind.
	tainted bool
}

func (v *variable) onHost() bool { return v.tensor.DeviceID().Type.HostAccessible() }

// thread runs steps one after the other.
type thread struct {
	*run
	index int
	trace *trace // nil if nobody wants to see the program
}

// run runs a program on the world, and says what went wrong.
func (w *World) run(p *program, traces string) error {
	ctx, cancel := context.WithTimeout(context.Background(), w.Timeout)
	defer cancel()
	// A call that does not obey its context.
	defer time.AfterFunc(w.Timeout+20*time.Second, func() { panic(hangs) }).Stop()
	r := &run{
		world: w, seed: p.seed, ctx: ctx, queue: stream.NewQueue(nil), page: parts.Page(pageBytes),
		vars: make([]*variable, p.vars), stream: make([]*streamVar, p.streams), events: make([]core.Event, p.events), device: make([]*Device, p.devices),
		links: make([]*linkVar, p.links),
	}
	for range p.gifts {
		r.gifts = append(r.gifts, make(chan *variable, 1))
	}
	r.steps(-1, p.prelude, traces)
	for _, v := range r.vars {
		if v != nil {
			v.mem.frozen = true
		}
	}
	var threads sync.WaitGroup
	for i, steps := range p.threads {
		threads.Go(func() {
			defer r.endGifts(p, i)
			r.steps(i, steps, traces)
		})
	}
	threads.Wait()
	r.unclaimed(p)
	r.finish(traces)
	return errors.Join(r.errs...)
}

// steps runs the steps of one thread, up to the first that goes wrong.
func (r *run) steps(index int, steps []step, traces string) {
	t := &thread{run: r, index: index, trace: newTrace(traces, index)}
	defer t.trace.end()
	for _, s := range steps {
		if r.failed() {
			return
		}
		if s == nil {
			continue
		}
		err := s.run(t)
		if errors.Is(err, errSkip) {
			continue
		}
		r.world.Cover.step()
		if err != nil {
			t.say("// WRONG: %v", err)
			t.fail(fmt.Errorf("%T: %w", s, err))
			return
		}
	}
}

func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errs) > 0
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// finish compares and closes all that is open, and proves that nothing is left.
func (r *run) finish(traces string) {
	t := &thread{run: r, index: -2, trace: newTrace(traces, -2)}
	defer t.trace.end()
	note := func(err error) {
		if err != nil && !errors.Is(err, errSkip) {
			t.say("// WRONG: %v", err)
			r.fail(err)
		}
	}
	for i, v := range r.vars {
		if v != nil && !v.closed && !r.failed() {
			note((&compare{of: i, how: i % hows, stream: -1}).run(t))
		}
	}
	for i := range r.links {
		note((&closeLink{of: i}).run(t))
	}
	for i := range r.stream {
		note((&closeStream{of: i}).run(t))
	}
	for i, v := range r.vars {
		if v != nil && !v.closed {
			note((&closeTensor{of: i}).run(t))
		}
	}
	r.later.Wait()
	note(r.queue.Close())
	r.closeFiles()
	for i, d := range r.device {
		if d != nil && !d.closed && !r.failed() {
			note((&closeDevice{dev: i + len(r.world.Devices)}).run(t))
		}
	}
}

// dev is a device by its number: the world's first, then the program's. It is nil if
// that was not opened.
func (r *run) dev(i int) *Device {
	if i < len(r.world.Devices) {
		return r.world.Devices[i]
	}
	return r.device[i-len(r.world.Devices)]
}

func (r *run) devName(d *Device) string {
	if d.private { // others may open theirs meanwhile: r.device is not searched
		return fmt.Sprintf("d%d", d.number)
	}
	return fmt.Sprintf("d%d", slices.Index(r.world.Devices, d))
}

// host is the host's device.
func (r *run) host() *Device { return r.world.Devices[0] }

// open is a variable that a step may use, nil if there is none.
func (r *run) open(i int) *variable {
	if i < 0 || r.vars[i] == nil || r.vars[i].closed {
		return nil
	}
	return r.vars[i]
}

// on is a stream of a device by its number, with its name in Go; nil where the
// program has none of that device.
func (r *run) on(i int, d *Device) (core.Stream, string) {
	if i < 0 || r.stream[i] == nil || r.stream[i].dev != d || d == nil || r.stream[i].closed {
		return nil, "nil"
	}
	return r.stream[i].Stream, fmt.Sprintf("s%d", i)
}

// pass has a stream of the thread, by its number, pass on what failed: from the memories
// that it works on, and to them. on is nil if it was not used.
func (t *thread) pass(i int, on core.Stream, memories ...*memory) {
	if on == nil {
		return
	}
	s := t.stream[i]
	for _, m := range memories {
		s.tainted = s.tainted || m.tainted
	}
	for _, m := range memories {
		if s.tainted && !m.frozen {
			m.tainted = true
		}
	}
}

// add makes a variable of a tensor.
func (t *thread) add(i int, p place, tensor *core.Tensor, dev *Device, from *variable) (*variable, error) {
	b, err := tensor.Buffer()
	if err != nil {
		return nil, err
	}
	v := &variable{place: p, name: fmt.Sprintf("t%d", i), tensor: tensor, root: b.Origin(), dev: dev, shared: t.index < 0}
	if from != nil && from.mem == p.mem {
		v.involved = slices.Clone(from.involved)
		if v.root != from.root { // another name, whose order dlx does not know
			t.noteWork(from)
			p.mem.multi = true
		}
	}
	inherited := from != nil && from.mem == p.mem && from.dev == dev
	if dev != nil && !inherited && !slices.Contains(v.involved, dev) {
		v.involved = append(v.involved, dev)
	}
	for _, d := range v.involved {
		d.use(1)
	}
	t.vars[i] = v
	p.mem.names.Add(1)
	return v, v.sameShape()
}

func (d *Device) use(n int) {
	if d.private {
		d.users += n
	}
}

// sameShape proves that the tensor says of itself what the model says.
func (v *variable) sameShape() error {
	t := v.tensor
	switch {
	case !slices.Equal(t.Shape(), v.shape):
		return fmt.Errorf("%s has shape %v, must have %v", v.name, t.Shape(), v.shape)
	case t.DType() != v.dtype || t.Padded() != v.padded:
		return fmt.Errorf("%s has %v, padded %v, must have %v, padded %v", v.name, t.DType(), t.Padded(), v.dtype, v.padded)
	case t.ReadOnly() != v.readOnly:
		return fmt.Errorf("%s is read-only: %v, must be %v", v.name, t.ReadOnly(), v.readOnly)
	case v.dev != nil && t.Device() != v.dev.Device:
		return fmt.Errorf("%s belongs to %v, must belong to %v", v.name, t.Device(), v.dev.Name)
	}
	return nil
}

// noteWork keeps the events of unfinished work on the memory of v, for those who know
// the memory under another name.
func (t *thread) noteWork(v *variable) {
	b, err := v.tensor.Buffer()
	if err != nil {
		return
	}
	pending := b.Pending()
	m := v.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = slices.DeleteFunc(m.notes, func(n note) bool {
		done, _ := n.work.Done()
		return done || n.root == v.root
	})
	for _, e := range pending {
		m.notes = append(m.notes, note{v.root, e})
	}
}

// before waits for what dlx cannot order: work on the memory under other names. The
// result is to be called when the step's work was enqueued.
func (t *thread) before(vars ...*variable) (after func()) {
	for _, v := range vars {
		if !v.mem.multi {
			continue
		}
		v.mem.mu.Lock()
		notes := slices.Clone(v.mem.notes)
		v.mem.mu.Unlock()
		for _, n := range notes {
			if n.root != v.root {
				_ = n.work.Wait(t.ctx)
			}
		}
	}
	return func() {
		for _, v := range vars {
			if v.mem.multi && !v.closed {
				t.noteWork(v)
			}
		}
	}
}

// wants is how a call may end.
type wants struct {
	must []error // it has to fail with one of these, if there is one
	may  []error
}

// check says what is wrong about an error.
func (t *thread) check(call string, err error, w wants) error {
	if err == nil {
		if len(w.must) > 0 {
			return fmt.Errorf("%s went well, must fail with %w", call, errors.Join(w.must...))
		}
		return nil
	}
	if t.ctx.Err() != nil {
		return fmt.Errorf("%s: the program did not end in time: %w", call, err)
	}
	t.say("// fails: %v", err)
	for _, e := range slices.Concat(w.must, w.may) {
		if errors.Is(err, e) || errors.Is(e, errNoWay) && errors.As(err, new(*exchange.NoWayError)) {
			return typed(call, err)
		}
	}
	if t.world.Tight && isShortage(err) {
		t.world.Cover.shortage()
		return typed(call, err)
	}
	return fmt.Errorf("%s: %w", call, err)
}

// typed proves that an error says whose it is.
func typed(call string, err error) error {
	if errors.Is(err, errKernel) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	if e := (*core.Error)(nil); !errors.As(err, &e) || e.Backend == "" || e.Call == "" {
		return fmt.Errorf("%s fails with %w, which does not name backend and call", call, err)
	}
	return nil
}

// isShortage reports whether an error is what may come where descriptors or memory are short.
func isShortage(err error) bool {
	return errors.Is(err, core.ErrOutOfMemory) || errors.Is(err, core.ErrNotSupported)
}

// ended is what a call fails with whose context ends.
var ended = []error{context.DeadlineExceeded, context.Canceled}

// suspected is what later work may fail with after work that failed, or that was given
// up half-way since its context ended. It has no room: whoever appends makes a copy.
var suspected = slices.Clip(append([]error{errKernel}, ended...))

// limited is a context that ends after so many microseconds; 0 is never.
func (t *thread) limited(micros int) (context.Context, string, func()) {
	switch {
	case micros == 0:
		return t.ctx, "ctx", func() {}
	case micros < 0:
		ctx, cancel := context.WithCancel(t.ctx)
		cancel()
		return ctx, "parts.Ended()", cancel
	}
	ctx, cancel := context.WithTimeout(t.ctx, time.Duration(micros)*time.Microsecond)
	return ctx, fmt.Sprintf("parts.Within(%d*time.Microsecond)", micros), cancel
}

func (t *thread) cover(k Kind, op string, d *Device, option string) {
	name := "none"
	if d != nil {
		name = d.Name
	}
	t.world.Cover.add(k, op, name, option)
}

// say adds a line to the program as Go.
func (t *thread) say(format string, args ...any) {
	if t.trace != nil {
		t.trace.line(fmt.Sprintf(format, args...))
	}
}

// trace is the program of a thread as Go, written line by line, so that it is there
// when the process is not any more.
type trace struct{ f *os.File }

// newTrace opens the file of a thread in a folder; none without a folder.
func newTrace(folder string, thread int) *trace {
	if folder == "" {
		return nil
	}
	f, err := os.OpenFile(fmt.Sprintf("%s/%d", folder, thread), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	return &trace{f}
}

func (t *trace) line(s string) { _, _ = t.f.WriteString(s + "\n") }

func (t *trace) end() {
	if t != nil {
		_ = t.f.Close()
	}
}
