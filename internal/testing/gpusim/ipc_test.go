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

	"golang.org/x/sys/unix"

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
	if n, err := hex.Decode(h[:], p.in.Bytes()); n != len(h) || err != nil {
		t.Fatal(n, err)
	}
	return h
}

var peers = map[string]func(*testing.T, *gpusimtest.Driver, asPeer){
	"memory": func(t *testing.T, d *gpusimtest.Driver, p asPeer) {
		h := p.handle(t)
		var ptr, again uint64
		d.Want(gpusimtest.InvalidValue, "cuIpcOpenMemHandle_v2", &ptr, h, 0)
		d.OK("cuIpcOpenMemHandle_v2", &ptr, h, lazyPeerAccess)
		d.OK("cuIpcOpenMemHandle_v2", &again, h, lazyPeerAccess)
		if again != ptr {
			t.Errorf("opened again at %#x, want %#x", again, ptr)
		}
		d.Want(gpusimtest.InvalidValue, "cuMemFree_v2", ptr)
		d.OK("cuIpcCloseMemHandle", ptr)
		d.Holds(ptr, gpusimtest.Pattern(4, 3*page))
		data := make([]byte, 3*page+1)
		d.Want(gpusimtest.InvalidValue, "cuMemcpyDtoH_v2", &data[0], ptr, len(data))
		d.Write(ptr+page, gpusimtest.Pattern(8, page))
		d.OK("cuIpcCloseMemHandle", ptr)
		d.Want(gpusimtest.InvalidValue, "cuIpcCloseMemHandle", ptr)
		p.say("done")
	},
	"keep open": func(t *testing.T, d *gpusimtest.Driver, p asPeer) {
		h := p.handle(t)
		var ptr uint64
		d.OK("cuIpcOpenMemHandle_v2", &ptr, h, lazyPeerAccess)
		p.say("open")
		p.in.Scan() // until the other process has freed the memory
		d.OK("cuIpcCloseMemHandle", ptr)
	},
	"open fails": func(t *testing.T, d *gpusimtest.Driver, p asPeer) {
		h := p.handle(t)
		var ptr uint64
		p.say(d.Name(d.Result("cuIpcOpenMemHandle_v2", &ptr, h, lazyPeerAccess)))
	},
	"export and die": func(t *testing.T, d *gpusimtest.Driver, p asPeer) {
		var ptr, event uint64
		var memory, state gpusimtest.Handle
		d.OK("cuMemAlloc_v2", &ptr, page)
		d.OK("cuEventCreate", &event, interprocess)
		d.OK("cuIpcGetMemHandle", &memory, ptr)
		d.OK("cuIpcGetEventHandle", &state, event)
		p.say(hex.EncodeToString(memory[:]))
		p.say(hex.EncodeToString(state[:]))
		os.Exit(0)
	},
	"descriptors": func(t *testing.T, d *gpusimtest.Driver, p asPeer) {
		const memory, timeline = 3, 4
		var handle, semaphore uint64
		d.OK("cuMemImportFromShareableHandle", &handle, memory, posixFD)
		d.OK("cuImportExternalSemaphore", &semaphore, &externalSemaphore{kind: timelineFD, fd: timeline})
		ptr, stream := mapping(t, d, handle, granularity), d.NewStream()
		d.OK("cuMemRelease", handle)
		d.OK("cuWaitExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 1}, 1, stream)
		d.OK("cuMemcpyDtoDAsync_v2", ptr+page, ptr, page, stream)
		d.OK("cuSignalExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 2}, 1, stream)
		d.OK("cuStreamSynchronize", stream)
		d.OK("cuDestroyExternalSemaphore", semaphore)
	},
	"wait": func(t *testing.T, d *gpusimtest.Driver, p asPeer) {
		memory, state := p.handle(t), p.handle(t)
		stream := d.NewStream()
		var ptr, event uint64
		d.OK("cuIpcOpenMemHandle_v2", &ptr, memory, lazyPeerAccess)
		d.OK("cuIpcOpenEventHandle", &event, state)
		d.Want(gpusimtest.NotReady, "cuEventQuery", event)
		data := d.Pinned(page)
		d.OK("cuStreamWaitEvent", stream, event, 0)
		d.OK("cuMemcpyAsync", &data[0], ptr, len(data), stream)
		p.say("waiting")
		d.OK("cuStreamSynchronize", stream)
		d.Await(event)
		p.say("waited")
		p.in.Scan() // the other process has destroyed the event
		d.OK("cuEventQuery", event)
		d.Noted()
		for i, b := range data {
			if b != 0x5A {
				t.Fatalf("byte %d is %#x after the wait", i, b)
			}
		}
		d.OK("cuEventDestroy_v2", event)
		d.OK("cuIpcCloseMemHandle", ptr)
		p.say("done")
	},
}

// TestPeer is the other process.
func TestPeer(t *testing.T) {
	role := os.Getenv(peerRole)
	if role == "" {
		return // run by the tests that need another process
	}
	peers[role](t, gpusimtest.Start(t), asPeer{bufio.NewScanner(os.Stdin)})
}

const interprocess = 4 | 2 // CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING

// "Device Management", cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle.
func TestProcessesShareMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	var ptr uint64
	var h, again gpusimtest.Handle
	d.OK("cuMemAlloc_v2", &ptr, 3*page)
	d.Write(ptr, gpusimtest.Pattern(4, 3*page))
	d.OK("cuIpcGetMemHandle", &h, ptr)
	d.OK("cuIpcGetMemHandle", &again, ptr)
	if h != again {
		t.Error("a second handle of the same memory is another one")
	}
	p := startPeer(t, "memory")
	p.tell(hex.EncodeToString(h[:]))
	if got := p.hear(); got != "done" {
		t.Fatal(got)
	}
	d.Holds(ptr+page, gpusimtest.Pattern(8, page))
	d.OK("cuMemFree_v2", ptr)
}

// A handle is for other processes, as long as the memory lives.
func TestAHandleIsRefusedWhereItIsNotGood(t *testing.T) {
	d := gpusimtest.Start(t)
	var ptr, next, opened uint64
	var h gpusimtest.Handle
	d.OK("cuMemAlloc_v2", &ptr, page)
	d.OK("cuIpcGetMemHandle", &h, ptr)
	d.Want(gpusimtest.InvalidContext, "cuIpcOpenMemHandle_v2", &opened, h, lazyPeerAccess)
	d.Want(gpusimtest.InvalidValue, "cuIpcOpenMemHandle_v2", &opened, gpusimtest.Handle{1, 2, 3}, lazyPeerAccess)
	d.OK("cuMemFree_v2", ptr)
	d.OK("cuMemAlloc_v2", &next, page)
	p := startPeer(t, "open fails")
	p.tell(hex.EncodeToString(h[:]))
	if got, want := p.hear(), d.Name(gpusimtest.MapFailed); got != want {
		t.Errorf("a handle of freed memory: %s, want %s", got, want)
	}
	d.OK("cuMemFree_v2", next)
}

// "Calling cuMemFree on an exported memory region before calling cuIpcCloseMemHandle in the importing context will
// result in undefined behavior."
func TestMemoryIsClosedByOthersBeforeItIsFreed(t *testing.T) {
	d := gpusimtest.Start(t)
	var ptr uint64
	var h gpusimtest.Handle
	d.OK("cuMemAlloc_v2", &ptr, page)
	d.OK("cuIpcGetMemHandle", &h, ptr)
	p := startPeer(t, "keep open")
	p.tell(hex.EncodeToString(h[:]))
	if got := p.hear(); got != "open" {
		t.Fatal(got)
	}
	d.OK("cuMemFree_v2", ptr)
	d.Noted()
	p.tell("freed")
}

func TestHandlesOfADeadProcessAreRefused(t *testing.T) {
	d := gpusimtest.Start(t)
	p := startPeer(t, "export and die")
	var memory, state gpusimtest.Handle
	for _, h := range []*gpusimtest.Handle{&memory, &state} {
		if n, err := hex.Decode(h[:], []byte(p.hear())); n != len(h) || err != nil {
			t.Fatal(n, err)
		}
	}
	for p.out.Scan() { // to its end
	}
	var ptr, event uint64
	d.Want(gpusimtest.MapFailed, "cuIpcOpenMemHandle_v2", &ptr, memory, lazyPeerAccess)
	d.Want(gpusimtest.MapFailed, "cuIpcOpenEventHandle", &event, state)
}

// "memory allocation created with cuMemAlloc", from its base.
func TestOnlyMemoryOfCuMemAllocIsExported(t *testing.T) {
	d := gpusimtest.Start(t)
	var plain, managed, host uint64
	var h gpusimtest.Handle
	d.OK("cuMemAlloc_v2", &plain, page)
	d.OK("cuMemAllocManaged", &managed, page, 1)
	d.OK("cuMemHostAlloc", &host, page, 0)
	virtual := mapping(t, d, create(t, d, granularity), granularity)
	for name, ptr := range map[string]uint64{
		"no memory": page, "not its base": plain + 256, "managed": managed, "pinned": host, "mapped": virtual,
	} {
		d.Run(t, name, func(_ *testing.T, d *gpusimtest.Driver) {
			d.Want(gpusimtest.InvalidValue, "cuIpcGetMemHandle", &h, ptr)
		})
	}
	d.OK("cuMemFree_v2", plain)
	d.OK("cuMemFree_v2", managed)
	d.OK("cuMemFreeHost", host)
}

// cuIpcGetEventHandle, cuIpcOpenEventHandle: work of one process waits for another's. "Performing operations on the
// imported event after the exported event has been freed with cuEventDestroy will result in undefined behavior."
func TestProcessesShareEvents(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	fd, semaphore := newTimeline(t, d)
	var ptr, event, local uint64
	var memory, state gpusimtest.Handle
	d.OK("cuMemAlloc_v2", &ptr, page)
	d.OK("cuEventCreate", &event, interprocess)
	d.OK("cuEventCreate", &local, 2)
	d.OK("cuIpcGetMemHandle", &memory, ptr)
	d.OK("cuIpcGetEventHandle", &state, event)
	d.Want(gpusimtest.InvalidHandle, "cuIpcGetEventHandle", &state, local)
	var opened uint64
	d.Want(gpusimtest.InvalidContext, "cuIpcOpenEventHandle", &opened, state)
	d.Want(gpusimtest.InvalidValue, "cuIpcOpenEventHandle", &opened, gpusimtest.Handle{})

	d.OK("cuWaitExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 1}, 1, stream)
	d.OK("cuMemsetD8Async", ptr, 0x5A, page, stream)
	d.OK("cuEventRecord", event, stream)
	p := startPeer(t, "wait")
	p.tell(hex.EncodeToString(memory[:]))
	p.tell(hex.EncodeToString(state[:]))
	if got := p.hear(); got != "waiting" {
		t.Fatal(got)
	}
	d.OK("dlx_gpusim_timeline_signal", fd, 1)
	if got := p.hear(); got != "waited" {
		t.Fatal(got)
	}
	d.Await(event)
	d.OK("cuEventDestroy_v2", event)
	p.tell("destroyed")
	if got := p.hear(); got != "done" {
		t.Fatal(got)
	}
	d.OK("cuEventDestroy_v2", local)
	d.OK("cuMemFree_v2", ptr)
}

// Descriptors of memory and of a timeline serve another process as they serve Vulkan.
func TestProcessesShareDescriptors(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	handle := create(t, d, granularity)
	ptr := mapping(t, d, handle, granularity)
	timeline, semaphore := newTimeline(t, d)
	var memory int32
	d.OK("cuMemExportToShareableHandle", &memory, handle, posixFD, 0)
	given, err := unix.FcntlInt(uintptr(timeline), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	startPeer(t, "descriptors", int(memory), given)
	d.OK("cuMemsetD8Async", ptr, 0x77, page, stream)
	d.OK("cuSignalExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 1}, 1, stream)
	d.OK("cuWaitExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 2}, 1, stream)
	data := d.Pinned(page)
	d.OK("cuMemcpyAsync", &data[0], ptr+page, page, stream)
	d.OK("cuStreamSynchronize", stream)
	if !bytes.Equal(data, bytes.Repeat([]byte{0x77}, page)) {
		t.Errorf("the other process left % x", data[:8])
	}
}
