//go:build linux && cgo

package gpusim_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// peerRole names, in the environment of this program run again, the test that plays the
// other process. It is told handles by its input, a line each, and answers on its output.
const peerRole = "GPUSIM_TEST_PEER"

const lazyPeerAccess = 1 // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

// peer is another process.
type peer struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

// answerMark begins a line that a peer says; the rest is go test's.
const answerMark = "peer: "

// startPeer runs a function of peers in another process, which gets descriptors as 3 and
// so on; its end is waited for.
func startPeer(t *testing.T, role string, fds ...int) *peer {
	t.Helper()
	program := exec.Command(os.Args[0], "-test.run=^TestPeer$", "-test.v")
	for _, fd := range fds {
		given := os.NewFile(uintptr(fd), "given away")
		defer func() { _ = given.Close() }()
		program.ExtraFiles = append(program.ExtraFiles, given)
	}
	program.Env = append(os.Environ(), peerRole+"="+role, atOnce())
	program.Stderr = os.Stderr
	// A peer polls for what another process does: it ends with the one that started it, which
	// is the thread that the driver has locked.
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		rest, _ := io.ReadAll(out)
		if err := program.Wait(); err != nil {
			t.Errorf("the other process: %v\n%s", err, rest)
		}
	})
	return &peer{t, in, bufio.NewScanner(out)}
}

// tell gives the peer a line.
func (p *peer) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

// give gives the peer a handle, in a line.
func (p *peer) give(h gpusimtest.Handle) { p.t.Helper(); p.tell(hex.EncodeToString(h[:])) }

// hears fails the test unless the peer says what is wanted next.
func (p *peer) hears(want string) {
	p.t.Helper()
	if got := p.hear(); got != want {
		p.t.Fatalf("the other process says %q, want %q", got, want)
	}
}

// hear returns what the peer says next.
func (p *peer) hear() string {
	p.t.Helper()
	var seen []string
	for p.out.Scan() {
		if answer, ok := strings.CutPrefix(p.out.Text(), answerMark); ok {
			return answer
		}
		seen = append(seen, p.out.Text())
	}
	p.t.Fatalf("the other process said nothing more, after\n%s", strings.Join(seen, "\n"))
	return ""
}

// asPeer is this process as a peer of the one that started it.
type asPeer struct{ in *bufio.Scanner }

func (asPeer) say(line string) { fmt.Println(answerMark + line) }

// handle reads a handle from the next line.
func (p asPeer) handle(t *testing.T) (h gpusimtest.Handle) {
	t.Helper()
	if !p.in.Scan() {
		t.Fatal("no more input")
	}
	return decode(t, p.in.Text())
}

// decode reads a handle from a line.
func decode(t *testing.T, line string) (h gpusimtest.Handle) {
	t.Helper()
	if n, err := hex.Decode(h[:], []byte(line)); n != len(h) || err != nil {
		t.Fatal(n, err)
	}
	return h
}

// memoryHandle and eventHandle export memory and an event.
func memoryHandle(d *driver, ptr uint64) (h gpusimtest.Handle) {
	d.OK("cuIpcGetMemHandle", &h, ptr)
	return h
}

func eventHandle(d *driver, event uint64) (h gpusimtest.Handle) {
	d.OK("cuIpcGetEventHandle", &h, event)
	return h
}

var peers = map[string]func(*testing.T, *driver, asPeer){
	"memory": func(t *testing.T, d *driver, p asPeer) {
		h := p.handle(t)
		d.Want(gpusimtest.InvalidValue, "cuIpcOpenMemHandle_v2", new(uint64), h, 0)
		ptr := d.New("cuIpcOpenMemHandle_v2", h, lazyPeerAccess)
		equal(t, "what is opened again", d.New("cuIpcOpenMemHandle_v2", h, lazyPeerAccess), ptr)
		d.Want(gpusimtest.InvalidValue, "cuMemFree_v2", ptr)
		d.OK("cuIpcCloseMemHandle", ptr)
		d.Holds(ptr, gpusimtest.Pattern(4, 3*page))
		d.Want(gpusimtest.InvalidValue, "cuMemcpyDtoH_v2", &make([]byte, 3*page+1)[0], ptr, 3*page+1)
		d.Write(ptr+page, gpusimtest.Pattern(8, page))
		p.say("written")
		p.in.Scan() // until the other process has freed the memory
		d.OK("cuIpcCloseMemHandle", ptr)
		d.Want(gpusimtest.InvalidValue, "cuIpcCloseMemHandle", ptr)
	},
	"open fails": func(t *testing.T, d *driver, p asPeer) {
		p.say(d.Name(d.Result("cuIpcOpenMemHandle_v2", new(uint64), p.handle(t), lazyPeerAccess)))
	},
	"export and die": func(_ *testing.T, d *driver, p asPeer) {
		memory := memoryHandle(d, d.New("cuMemAlloc_v2", page))
		state := eventHandle(d, d.New("cuEventCreate", interprocess))
		p.say(hex.EncodeToString(memory[:]))
		p.say(hex.EncodeToString(state[:]))
		os.Exit(0)
	},
	"descriptors": func(t *testing.T, d *driver, _ asPeer) {
		const memory, timeline = 3, 4
		handle := d.New("cuMemImportFromShareableHandle", memory, posixFD)
		semaphore := d.New("cuImportExternalSemaphore", &externalSemaphore{kind: timelineFD, fd: timeline})
		ptr, stream := mapping(t, d, handle, granularity), d.NewStream()
		d.OK("cuMemRelease", handle)
		at(d, wait, semaphore, 1, stream)
		d.OK("cuMemcpyDtoDAsync_v2", ptr+page, ptr, page, stream)
		at(d, signal, semaphore, 2, stream)
		d.OK("cuStreamSynchronize", stream)
		d.OK("cuDestroyExternalSemaphore", semaphore)
	},
	"wait": func(t *testing.T, d *driver, p asPeer) {
		memory, state := p.handle(t), p.handle(t)
		stream, data := d.NewStream(), d.Pinned(page)
		ptr, event := d.New("cuIpcOpenMemHandle_v2", memory, lazyPeerAccess), d.New("cuIpcOpenEventHandle", state)
		d.Want(gpusimtest.NotReady, "cuEventQuery", event)
		d.OK("cuStreamWaitEvent", stream, event, 0)
		d.OK("cuMemcpyAsync", &data[0], ptr, len(data), stream)
		p.say("waiting")
		d.OK("cuStreamSynchronize", stream)
		d.Await(event)
		p.say("waited")
		p.in.Scan() // the other process has destroyed the event
		d.OK("cuEventQuery", event)
		d.Noted()
		if !bytes.Equal(data, bytes.Repeat([]byte{0x5A}, page)) {
			t.Errorf("the memory begins with % x after the wait", data[:8])
		}
		d.OK("cuEventDestroy_v2", event)
		d.OK("cuIpcCloseMemHandle", ptr)
		p.say("done")
	},
}

// TestPeer is the other process.
func TestPeer(t *testing.T) {
	if role := os.Getenv(peerRole); role != "" { // run by the tests that need another process
		peers[role](t, gpusimtest.Start(t), asPeer{bufio.NewScanner(os.Stdin)})
	}
}

const interprocess = 4 | 2 // CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING

// "Device Management", cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle. "Calling cuMemFree on an exported memory
// region before calling cuIpcCloseMemHandle in the importing context will result in undefined behavior."
func TestProcessesShareMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := d.New("cuMemAlloc_v2", 3*page)
	d.Write(ptr, gpusimtest.Pattern(4, 3*page))
	h := memoryHandle(d, ptr)
	equal(t, "a second handle of the same memory", memoryHandle(d, ptr), h)
	d.Want(gpusimtest.InvalidContext, "cuIpcOpenMemHandle_v2", new(uint64), h, lazyPeerAccess)
	d.Want(gpusimtest.InvalidValue, "cuIpcOpenMemHandle_v2", new(uint64), gpusimtest.Handle{1, 2, 3}, lazyPeerAccess)
	p := startPeer(t, "memory")
	p.give(h)
	p.hears("written")
	d.Holds(ptr+page, gpusimtest.Pattern(8, page))
	d.OK("cuMemFree_v2", ptr)
	d.Noted()
	p.tell("freed")
	memory(t, d, page)
	late := startPeer(t, "open fails")
	late.give(h)
	late.hears(d.Name(gpusimtest.MapFailed))
}

func TestHandlesOfADeadProcessAreRefused(t *testing.T) {
	d := gpusimtest.Start(t)
	p := startPeer(t, "export and die")
	memory, state := decode(t, p.hear()), decode(t, p.hear())
	for p.out.Scan() { // to its end
	}
	d.Want(gpusimtest.MapFailed, "cuIpcOpenMemHandle_v2", new(uint64), memory, lazyPeerAccess)
	d.Want(gpusimtest.MapFailed, "cuIpcOpenEventHandle", new(uint64), state)
}

// "memory allocation created with cuMemAlloc", from its base.
func TestOnlyMemoryOfCuMemAllocIsExported(t *testing.T) {
	d := gpusimtest.Start(t)
	managed := d.New("cuMemAllocManaged", page, 1)
	defer d.OK("cuMemFree_v2", managed)
	for name, ptr := range map[string]uint64{
		"no memory": page, "not its base": memory(t, d, page) + 256, "managed": managed, "pinned": addressOf(d.Pinned(page)),
		"mapped": mapping(t, d, create(t, d, granularity), granularity),
	} {
		equal(t, name, d.Result("cuIpcGetMemHandle", new(gpusimtest.Handle), ptr), gpusimtest.InvalidValue)
	}
}

// cuIpcGetEventHandle, cuIpcOpenEventHandle: work of one process waits for another's. "Performing operations on the
// imported event after the exported event has been freed with cuEventDestroy will result in undefined behavior."
func TestProcessesShareEvents(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream, event := memory(t, d, page), d.NewStream(), d.New("cuEventCreate", interprocess)
	fd, semaphore := newTimeline(t, d)
	state := eventHandle(d, event)
	d.Want(gpusimtest.InvalidHandle, "cuIpcGetEventHandle", new(gpusimtest.Handle), newEvent(t, d, 2))
	d.Want(gpusimtest.InvalidContext, "cuIpcOpenEventHandle", new(uint64), state)
	d.Want(gpusimtest.InvalidValue, "cuIpcOpenEventHandle", new(uint64), gpusimtest.Handle{})

	at(d, wait, semaphore, 1, stream)
	fill(d, ptr, 0x5A, page, stream)
	d.OK("cuEventRecord", event, stream)
	p := startPeer(t, "wait")
	p.give(memoryHandle(d, ptr))
	p.give(state)
	p.hears("waiting")
	d.OK("dlx_gpusim_timeline_signal", fd, 1)
	p.hears("waited")
	d.Await(event)
	d.OK("cuEventDestroy_v2", event)
	p.tell("destroyed")
	p.hears("done")
}

// Descriptors of memory and of a timeline serve another process as they serve Vulkan.
func TestProcessesShareDescriptors(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, handle := d.NewStream(), create(t, d, granularity)
	ptr := mapping(t, d, handle, granularity)
	timeline, semaphore := newTimeline(t, d)
	startPeer(t, "descriptors", export(d, handle), duplicate(t, timeline))
	fill(d, ptr, 0x77, page, stream)
	at(d, signal, semaphore, 1, stream)
	at(d, wait, semaphore, 2, stream)
	data := d.Pinned(page)
	d.OK("cuMemcpyAsync", &data[0], ptr+page, page, stream)
	d.OK("cuStreamSynchronize", stream)
	if !bytes.Equal(data, bytes.Repeat([]byte{0x77}, page)) {
		t.Errorf("the other process left % x", data[:8])
	}
}
