//go:build ucx && linux && cgo

package ucx

/*
#cgo LDFLAGS: -ldl
#cgo noescape dlx_ucx_send
#cgo nocallback dlx_ucx_send
#cgo nocallback dlx_ucx_receive
#cgo nocallback dlx_ucx_flush
#cgo nocallback dlx_ucx_take
#cgo nocallback dlx_ucx_drop
#cgo nocallback dlx_ucx_poll
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var (
	liveWorkers  = live.NewCounter("ucx.Worker")
	liveOps      = live.NewCounter("ucx.Operation")
	liveMessages = live.NewCounter("ucx.Message")
)

// process is what all workers of the process share.
var process struct {
	context C.ucp_context_h
	version string
	types   C.uint64_t // bits of the kinds of memory that the context knows
}

// kinds are UCX's numbers of the kinds of memory.
var kinds = [...]C.ucs_memory_type_t{Host: C.UCS_MEMORY_TYPE_HOST, CUDA: C.UCS_MEMORY_TYPE_CUDA, ROCm: C.UCS_MEMORY_TYPE_ROCM}

// Knows returns nil if UCX uses memory of a kind by its address, and otherwise an error that says why not.
func Knows(m Memory) error {
	if err := Load(); err != nil {
		return err
	}
	return knows(m, process.types&(1<<kinds[m]) != 0, process.version)
}

// Load opens libucp and prepares it, once for the life of the process. It fails with core.ErrNotSupported if there is no
// library, and with core.ErrVersion if it is older than UCX 1.10.
var Load = sync.OnceValue(func() error {
	name := os.Getenv(LibraryVariable)
	if name == "" {
		name = "libucp.so.0"
	}
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var missing, since *C.char
	if why := C.dlx_ucx_load(n, &missing, &since); why != nil {
		defer C.free(unsafe.Pointer(why))
		if missing != nil {
			return core.Errorf(core.ErrVersion, "ucx", "dlsym", "%s has no function %s, which UCX has since version %s: install a newer one", name, C.GoString(missing), C.GoString(since))
		}
		return core.Errorf(core.ErrNotSupported, "ucx", "dlopen", "%s: install UCX (Debian: libucx0), or name its library in %s", C.GoString(why), LibraryVariable)
	}
	process.version = C.GoString(C.dlx_ucx_version())
	if status := C.dlx_ucx_init(&process.context, &process.types); status != C.UCS_OK {
		return failed("ucp_init", status)
	}
	return nil
})

// Version returns the version of the library that Load has opened, such as "1.13.1".
func Version() string { return process.version }

// Worker has one peer. It is safe for concurrent use. The functions that are passed to it run with its lock held: they must
// not call the worker, and must not block.
type Worker struct {
	handler Handler
	address []byte
	header  int
	file    *os.File // an epoll instance with the event descriptor of UCX, for Go's poller
	raw     interface {
		Read(func(uintptr) bool) error
	}
	polled atomic.Int64 // when a caller has polled last, in nanoseconds after loaded; math.MaxInt64 while one does

	running sync.WaitGroup // run, from Connect on

	mu       sync.Mutex
	c        *C.dlx_ucx_worker // nil after Close
	events   *C.dlx_ucx_event
	asleep   bool          // the events were armed, and run has made no progress since
	yielded  time.Duration // when a caller that polls has yielded last, after loaded
	lastOp   uint64
	ops      map[uint64]func(error)
	messages map[*Message]struct{} // whose data nobody has received or dropped
	spare    []*Message            // that are used again
}

// loaded is a moment by which times are told without the clock of the day.
var loaded = time.Now()

// Handler gets what the peer does.
type Handler struct {
	// Arrived gets a message. It reports whether it keeps the message, and then Receive or Drop must be called.
	Arrived func(*Message) bool
	// Broken is called once, when UCX has lost the peer.
	Broken func(error)
	// Dropped is called once, when a message broke the limits of messages or was larger than MaxEager or the header's
	// limit, and was dropped.
	Dropped func()
	// Token, if not nil, is what the header of each message of the peer begins with.
	Token *[TokenSize]byte
	// Foreign gets the number of messages without the token, which were dropped, and for which there are no limits.
	Foreign func(n int64)
}

const maxEvents = 64

// NewWorker makes a worker that keeps at most messages that nobody has received. It makes no progress before Connect, see there.
// The caller closes it.
func NewWorker(messages int, h Handler) (*Worker, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	w := &Worker{handler: h, ops: make(map[uint64]func(error)), messages: make(map[*Message]struct{})}
	w.c = (*C.dlx_ucx_worker)(C.calloc(1, C.sizeof_dlx_ucx_worker))
	w.events = (*C.dlx_ucx_event)(C.calloc(maxEvents, C.sizeof_dlx_ucx_event))
	if w.c == nil || w.events == nil {
		w.free()
		return nil, core.Errorf(core.ErrOutOfMemory, "ucx", "calloc", "no memory for a worker")
	}
	if h.Token != nil {
		w.c.has_token = 1
		copy(unsafe.Slice((*byte)(&w.c.token[0]), len(w.c.token)), h.Token[:])
	}
	w.c.max_messages, w.c.max_eager, w.c.max_header = C.uint32_t(messages), MaxEager, MaxHeader
	var header C.uint64_t
	if status := C.dlx_ucx_open(process.context, w.c, &header); status != C.UCS_OK {
		w.free()
		return nil, failed("ucp_worker_create", status)
	}
	w.header = int(min(uint64(header), MaxHeader))
	if err := w.open(int(w.c.fd)); err != nil {
		C.dlx_ucx_close(w.c)
		w.free()
		return nil, err
	}
	liveWorkers.Add(1)
	return w, nil
}

// open copies the address, and makes the descriptor for Go's poller. UCX owns fd. Go's poller gets another one, since
// otherwise each message wakes a thread of it, also while a caller polls: fd is in it for one event at a time.
func (w *Worker) open(fd int) error {
	var address *C.ucp_address_t
	var length C.size_t
	if status := C.dlx_ucx_address(w.c, &address, &length); status != C.UCS_OK {
		return failed("ucp_worker_get_address", status)
	}
	defer C.dlx_ucx_release_address(w.c, address)
	if length > MaxAddress {
		return core.Errorf(core.ErrNotSupported, "ucx", "ucp_worker_get_address", "the address of the worker has %d bytes, and %d are possible: choose fewer devices by UCX_NET_DEVICES", length, MaxAddress)
	}
	w.address = C.GoBytes(unsafe.Pointer(address), C.int(length))
	own, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return core.Errorf(core.ErrOutOfMemory, "ucx", "epoll_create1", "no descriptor for the events of a worker: %v", err)
	}
	if err = unix.EpollCtl(own, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLONESHOT}); err == nil {
		err = unix.SetNonblock(own, true)
	}
	if err != nil {
		_ = unix.Close(own)
		return core.Errorf(core.ErrNotSupported, "ucx", "epoll_ctl", "%v", err)
	}
	w.file = os.NewFile(uintptr(own), "ucx events")
	if w.raw, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return core.Errorf(core.ErrNotSupported, "ucx", "events", "%v", err)
	}
	return nil
}

// free frees the memory of C.
func (w *Worker) free() {
	C.free(unsafe.Pointer(w.c))
	C.free(unsafe.Pointer(w.events))
	w.c, w.events = nil, nil
}

// Address returns the address that a peer passes to Connect.
func (w *Worker) Address() []byte { return w.address }

// MaxHeader returns how many bytes the header of a message can have.
func (w *Worker) MaxHeader() int { return w.header }

func closed(call string) error {
	return core.Errorf(core.ErrClosed, "ucx", call, "the worker was closed")
}

// Connect sets the peer, once. The address comes from a peer that was authenticated, since UCX hardly checks it.
//
// Progress begins here, so that UCX does not know yet that the peer has connected over TCP: it would take that connection over,
// and end the process by an assertion if the peer has died meanwhile (DESIGN.md of package remote).
func (w *Worker) Connect(address []byte) error {
	if len(address) == 0 || len(address) > MaxAddress {
		return invalid("ucp_ep_create", "the address of the peer has %d bytes: 1 to %d are possible", len(address), MaxAddress)
	}
	// UCX reads as far as the address says: zeros after it end it.
	c := C.calloc(2, MaxAddress)
	if c == nil {
		return core.Errorf(core.ErrOutOfMemory, "ucx", "calloc", "no memory for an address")
	}
	defer C.free(c)
	copy(unsafe.Slice((*byte)(c), MaxAddress), address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c == nil {
		return closed("ucp_ep_create")
	}
	if w.c.ep != nil {
		return invalid("ucp_ep_create", "the worker has a peer")
	}
	if status := C.dlx_ucx_connect(w.c, c); status != C.UCS_OK {
		return failed("ucp_ep_create", status)
	}
	w.running.Go(w.run)
	return nil
}

// Flush calls done, as Send does, when UCX has done what was sent before, and is connected to the peer: over TCP, the peer has
// called Connect by then.
func (w *Worker) Flush(done func(error)) error {
	w.mu.Lock()
	if w.c == nil {
		w.mu.Unlock()
		return closed("ucp_ep_flush_nbx")
	}
	w.lastOp++
	return w.posted("ucp_ep_flush_nbx", C.dlx_ucx_flush(w.c, C.uint64_t(w.lastOp)), done)
}

// Send sends a header with length bytes from the address data. With fetched, the peer fetches the bytes when it receives
// them; without, there are at most MaxEager. The memory at data must stay as it is until done is called, which happens
// once if Send returns nil, possibly before it returns. Done gets nil when UCX needs the memory no longer: with fetched, when the
// peer has received or dropped the message. Header is copied.
func (w *Worker) Send(header []byte, data uintptr, length int64, fetched bool, done func(error)) error {
	return w.SendFrom(Host, header, data, length, fetched, done)
}

// SendFrom is like [Worker.Send], for memory of a kind that UCX knows. UCX does not wait for work of the device.
func (w *Worker) SendFrom(memory Memory, header []byte, data uintptr, length int64, fetched bool, done func(error)) error {
	if len(header) == 0 || len(header) > w.header || length < 0 || !fetched && length > MaxEager || fetched && length == 0 {
		return invalid("ucp_am_send_nbx", "a message has %d bytes and a header of %d bytes, which can have %d", length, len(header), w.header)
	}
	w.mu.Lock()
	if w.c == nil {
		w.mu.Unlock()
		return closed("ucp_am_send_nbx")
	}
	w.lastOp++
	mode := C.int(0)
	if fetched {
		mode = 1
	}
	status := C.dlx_ucx_send(w.c, C.uint64_t(w.lastOp), unsafe.Pointer(&header[0]), C.uint32_t(len(header)), C.uintptr_t(data), C.uint64_t(length), kinds[memory], mode)
	return w.posted("ucp_am_send_nbx", status, done)
}

// posted notes an operation. It unlocks w.mu.
func (w *Worker) posted(call string, status C.ucs_status_t, done func(error)) error {
	if status == C.UCS_INPROGRESS {
		w.ops[w.lastOp] = done
		liveOps.Add(1)
		w.poll(1)
		if w.ops[w.lastOp] != nil && w.asleep {
			C.dlx_ucx_signal(w.c) // its events are armed as they were before
			w.asleep = false
		}
		w.mu.Unlock()
		return nil
	}
	w.mu.Unlock()
	if status != C.UCS_OK {
		return failed(call, status)
	}
	done(nil)
	return nil
}

func invalid(call, format string, args ...any) error {
	return core.Errorf(core.ErrInvalid, "ucx", call, format, args...)
}

// Message is a message of the peer. A call of Receive that succeeds, or of Drop, is the last use of it: the worker uses the
// object for another message.
type Message struct {
	Header []byte // in memory of C, as long as the message is there
	Length int64  // of the data

	w       *Worker
	fetched bool
	c       *C.dlx_ucx_message // with the data that came with it; guarded by w.mu; nil after Receive and Drop
}

// Fetched reports whether the data did not come with the message, so that Receive fetches it.
func (m *Message) Fetched() bool { return m.fetched }

// Receive brings the data to the address data, which has room for length bytes, all that the message has. Done is called
// as for Send. After an error, the caller drops the message.
func (m *Message) Receive(data uintptr, length int64, done func(error)) error {
	return m.ReceiveInto(Host, data, length, done)
}

// ReceiveInto is like [Message.Receive], for memory of a kind that UCX knows. Only the data of a fetched message can go to memory
// that is not the host's.
func (m *Message) ReceiveInto(memory Memory, data uintptr, length int64, done func(error)) error {
	if length != m.Length {
		return invalid("ucp_am_recv_data_nbx", "a message of %d bytes is received into %d bytes", m.Length, length)
	}
	if memory != Host && !m.fetched {
		return invalid("ucp_am_recv_data_nbx", "the data came with the message, in memory of the host")
	}
	w := m.w
	w.mu.Lock()
	if w.c == nil && m.c == nil {
		w.mu.Unlock()
		return closed("ucp_am_recv_data_nbx")
	}
	if m.c == nil {
		w.mu.Unlock()
		return invalid("ucp_am_recv_data_nbx", "the data has come already")
	}
	c := m.c
	m.forget()
	if !m.fetched {
		C.dlx_ucx_take(w.c, c, C.uintptr_t(data))
		m.recycle()
		w.mu.Unlock()
		done(nil)
		return nil
	}
	w.lastOp++
	status := C.dlx_ucx_receive(w.c, C.uint64_t(w.lastOp), c, C.uintptr_t(data), C.uint64_t(length), kinds[memory])
	C.dlx_ucx_drop(w.c, c)
	if status == C.UCS_INPROGRESS || status == C.UCS_OK {
		m.recycle()
	}
	return w.posted("ucp_am_recv_data_nbx", status, done)
}

// Drop gives the message up. It does nothing after a Receive that has failed, or if Close has dropped the message.
func (m *Message) Drop() {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if m.drop() {
		m.recycle()
	}
}

// drop frees what C keeps of the message, and reports whether it was there. The lock of the worker is held.
func (m *Message) drop() bool {
	if m.c == nil {
		return false
	}
	C.dlx_ucx_drop(m.w.c, m.c)
	m.forget()
	return true
}

// forget notes that the message is not there any more. The lock of the worker is held.
func (m *Message) forget() {
	m.c, m.Header = nil, nil
	delete(m.w.messages, m)
	liveMessages.Add(-1)
}

// spareMessages bounds the objects that a worker keeps for further messages.
const spareMessages = 64

// recycle keeps the object, which nobody uses any more, for another message. The lock of the worker is held.
func (m *Message) recycle() {
	if w := m.w; len(w.spare) < spareMessages {
		w.spare = append(w.spare, m)
	}
}

// newMessage returns an object for a message that has arrived. w.mu is held.
func (w *Worker) newMessage(c *C.dlx_ucx_message) *Message {
	var m *Message
	if n := len(w.spare); n > 0 {
		m, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		m = new(Message)
	}
	header := unsafe.Add(unsafe.Pointer(c), C.sizeof_dlx_ucx_message)
	*m = Message{Header: unsafe.Slice((*byte)(header), c.header_length), Length: int64(c.length), w: w, fetched: c.data != nil, c: c}
	w.messages[m] = struct{}{}
	liveMessages.Add(1)
	return m
}

// yieldAfter is less than the 10 ms after which Go's scheduler takes the processor of a goroutine that has not yielded. It does so each
// 20 us while the goroutine is in calls of C, which then wait for a processor at their ends.
const yieldAfter = 5 * time.Millisecond

// Poll makes progress for some microseconds, or for some hundred while data comes, and reports whether anything happened.
func (w *Worker) Poll() bool {
	happened, yield := w.pollShortly()
	if yield {
		runtime.Gosched()
	}
	return happened
}

// pollShortly is Poll, and reports whether it is time to yield, which a caller that has got something does anyway.
func (w *Worker) pollShortly() (happened, yield bool) {
	w.polled.Store(math.MaxInt64) // run would wait for the lock while data comes, and be woken on the processor that polls
	defer func() { w.polled.Store(int64(time.Since(loaded))) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	happened = w.c != nil && w.c.ep != nil && w.poll(-16) > 0
	if now := time.Since(loaded); !happened && now-w.yielded > yieldAfter {
		w.yielded, yield = now, true
	}
	return happened, yield
}

// poll makes progress, and hands out what has happened. With fewer rounds than 0 it ends at the first event, so that the
// event does not wait for others. w.mu is held, and w.c is not nil.
func (w *Worker) poll(rounds int) int {
	n := int(C.dlx_ucx_poll(w.c, C.int(rounds), w.events, maxEvents))
	for i := range unsafe.Slice(w.events, n) {
		w.hand(&unsafe.Slice(w.events, n)[i])
	}
	return n
}

func (w *Worker) hand(e *C.dlx_ucx_event) {
	switch e.kind {
	case C.DLX_UCX_DONE:
		id := uint64(e.id)
		done := w.ops[id]
		delete(w.ops, id)
		liveOps.Add(-1)
		var err error
		if status := C.ucs_status_t(e.status); status != C.UCS_OK {
			err = failed("request", status)
		}
		done(err)
	case C.DLX_UCX_ARRIVED:
		m := w.newMessage((*C.dlx_ucx_message)(e.object))
		if !w.handler.Arrived(m) {
			m.drop()
			m.recycle()
		}
	case C.DLX_UCX_BROKEN:
		w.handler.Broken(failed("endpoint", C.ucs_status_t(e.status)))
	case C.DLX_UCX_DROPPED:
		w.handler.Dropped()
	case C.DLX_UCX_FOREIGN:
		w.handler.Foreign(int64(e.id))
	}
}

// pollPause is how long run leaves the progress to callers of Poll after the last of them.
const pollPause = 200 * time.Microsecond

// run makes progress whenever the event descriptor says that there is something to do.
func (w *Worker) run() {
	_ = w.raw.Read(w.settle) // until the file is closed
}

// settle makes progress until there is nothing to do, and arms the events. It reports whether the worker was closed. Go's
// poller takes notes of changes from before the call on, so that none is lost.
func (w *Worker) settle(epoll uintptr) bool {
	// Takes the event, after which nothing wakes Go's poller until the events are armed.
	_, _ = unix.EpollWait(int(epoll), make([]unix.EpollEvent, 1), 0)
	for {
		for last := w.polled.Load(); last != 0 && time.Since(loaded)-time.Duration(last) < pollPause; last = w.polled.Load() {
			time.Sleep(pollPause)
		}
		w.mu.Lock()
		if w.c == nil {
			w.mu.Unlock()
			return true
		}
		busy := w.poll(256) == maxEvents
		status := C.ucs_status_t(C.UCS_ERR_BUSY)
		if !busy {
			status = C.dlx_ucx_arm(w.c, C.int(epoll))
		}
		w.asleep = status == C.UCS_OK
		w.mu.Unlock()
		if status == C.UCS_OK {
			return false
		}
	}
}

// Transports returns the names of the transports that UCX has chosen for the peer.
func (w *Worker) Transports() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c == nil {
		return []string{}
	}
	text := C.dlx_ucx_describe(w.c)
	defer C.free(unsafe.Pointer(text))
	return transportsOf(C.GoString(text))
}

// Close ends all operations, whose done functions get core.ErrClosed, and drops all messages whose data did not come with
// them. The others can still be received, or must be dropped. UCX touches no memory afterwards. A second Close does nothing.
func (w *Worker) Close() error {
	w.mu.Lock()
	if w.c == nil {
		w.mu.Unlock()
		w.running.Wait()
		return nil
	}
	w.dropFetched()
	C.dlx_ucx_disconnect(w.c, 100_000) // the end of the worker ends what that does not
	for left := true; left; {          // without progress, which could bring more
		left = w.poll(0) > 0
	}
	w.dropFetched()
	C.dlx_ucx_close(w.c)
	left := w.ops
	w.ops = nil
	w.free()
	w.mu.Unlock()
	for _, done := range left {
		liveOps.Add(-1)
		done(closed("request"))
	}
	_ = w.file.Close()
	w.running.Wait()
	liveWorkers.Add(-1)
	trimLater()
	return nil
}

// dropFetched drops the messages whose data is with the peer. w.mu is held.
func (w *Worker) dropFetched() {
	for m := range w.messages {
		if m.fetched {
			m.drop()
		}
	}
}

// trimAfter is how long the C library keeps the memory of workers that were closed. It gives back nothing by itself, and spreads
// the next workers over its arenas, so that each worker would take some 200 KiB for ever. To look for pages to give back takes
// milliseconds, so many workers share that.
const trimAfter = time.Second

var trimming atomic.Bool

// trimLater lets the C library give free memory back soon.
func trimLater() {
	if trimming.CompareAndSwap(false, true) {
		time.AfterFunc(trimAfter, func() {
			trimming.Store(false)
			C.dlx_ucx_trim()
		})
	}
}
