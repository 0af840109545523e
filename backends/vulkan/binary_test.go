//go:build vulkan && linux && cgo

package vulkan

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/vulkan/internal/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// sides are two devices, with a VkInstance each, that share memory and a binary semaphore.
type sides struct {
	signals, waits   core.Device
	from, to         core.Stream
	signal, wait     core.BinarySemaphore
	written, as, out *core.Tensor // on signals; the same memory on waits; other memory on waits
	handle           core.ExternalSemaphore
}

const sharedBytes = 32 << 20

// binarySides skips the test with a driver that does not share binary semaphores.
func binarySides(t *testing.T) *sides {
	t.Helper()
	s := &sides{signals: opened(t, separateMemory), waits: opened(t, separateMemory)}
	if inner(s.signals).semaphoreType != core.HandleBinaryFD {
		p := s.signals.Properties()
		t.Skipf("%s shares no binary semaphores, or dlx uses its timelines", p.Driver)
	}
	var err error
	for _, x := range []struct {
		on   core.Device
		made *core.Stream
	}{{s.signals, &s.from}, {s.waits, &s.to}} {
		if *x.made, err = x.on.NewStream(t.Context()); err != nil {
			t.Fatal(err)
		}
		made := *x.made
		t.Cleanup(func() { _ = made.Close() })
	}
	s.written = row(t, s.signals, sharedBytes, core.AllocOptions{Export: core.HandleOpaqueFD})
	s.out = row(t, s.waits, sharedBytes, core.AllocOptions{})
	b, err := s.written.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.signals.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.waits.(core.MemoryImporter).ImportMemory(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	s.as = keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{sharedBytes}}))

	own, err := s.signals.(core.SemaphoreCreator).NewSemaphore(t.Context(), core.HandleBinaryFD)
	if err != nil {
		t.Fatal(err)
	}
	s.signal = own.(core.BinarySemaphore)
	t.Cleanup(func() { _ = own.Close() })
	if s.handle, err = s.signals.(core.SemaphoreExporter).ExportSemaphore(own, core.HandleBinaryFD); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.handle.Close() })
	again, err := s.handle.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	imported, err := s.waits.(core.SemaphoreImporter).ImportSemaphore(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = imported.Close() })
	s.wait = imported.(core.BinarySemaphore)
	return s
}

// Work behind a wait sees what the work before the signal wrote, on another VkDevice, and the host waits for nothing.
func TestABinarySemaphoreOrdersDevices(t *testing.T) {
	s := binarySides(t)
	source := row(t, s.signals, sharedBytes, core.AllocOptions{})
	for v := uint64(1); v <= 8; v++ {
		content := bytes.Repeat([]byte{byte(v)}, sharedBytes)
		put(t, s.signals, source, content)
		if err := errors.Join(s.signals.Copy(t.Context(), s.from, s.written, source), s.signal.Signal(s.from, v),
			s.wait.WaitOn(s.to, v), s.waits.Copy(t.Context(), s.to, s.out, s.as)); err != nil {
			t.Fatal(err)
		}
		if got := get(t, s.waits, s.out); !bytes.Equal(got, content) {
			t.Fatalf("handoff %d: the second device read too early", v)
		}
	}
}

// A link takes another binary semaphore, or lets the host wait, as long as one is in use.
func TestALinkUsesABinarySemaphoreAgainAfterItsWait(t *testing.T) {
	s := binarySides(t)
	link := stream.NewSharedSemaphore(s.signal, s.wait)
	source := row(t, s.signals, sharedBytes, core.AllocOptions{})
	var used int
	for range 6 {
		if err := s.signals.Copy(t.Context(), s.from, s.written, source); err != nil {
			t.Fatal(err)
		}
		before := link.Reusable()
		how, err := link.Handoff(t.Context(), s.written, s.from, s.to)
		if err != nil {
			t.Fatal(err)
		}
		if how == stream.SemaphoreWait {
			used++
			if !before {
				t.Error("a semaphore in use was signalled again")
			}
		}
		if err := s.to.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !link.Reusable() {
			t.Error("the wait is over, and the semaphore is in use")
		}
	}
	if used == 0 {
		t.Error("the semaphore was never used")
	}
}

// Signals must be submitted at once.
func TestABinarySignalBehindTheHostIsRefused(t *testing.T) {
	s := binarySides(t)
	gate, err := s.signals.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	other, err := s.signals.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := gate.WaitOn(s.from, 1); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.signal.Signal(s.from, 1), core.ErrNotSupported, "Signal behind a wait for what is not submitted")
	wantError(t, s.signal.WaitOn(other, 0), core.ErrInvalid, "WaitOn(0)")
	if err := errors.Join(gate.Signal(other, 1), s.from.Synchronize(t.Context()), s.signal.Signal(s.from, 1), s.wait.WaitOn(s.to, 1), s.to.Synchronize(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// A process that ends before it signals holds nobody up for ever.
func TestABinaryWaitForADeadPeerIsReleased(t *testing.T) {
	s := binarySides(t)
	if err := s.wait.WaitOn(s.to, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	err := s.to.Synchronize(ctx)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait without a signal: %v", err)
	}
	wantError(t, s.wait.Release(t.Context(), 2), core.ErrInvalid, "Release of another value")
	if err := errors.Join(s.wait.Release(t.Context(), 1), s.to.Synchronize(t.Context())); err != nil {
		t.Fatal(err)
	}
}

const peerVariable = "DLX_TEST_BINARY_PEER"

// The handoff goes from one process to another: the child writes and signals, and the parent waits on its device.
func TestABinarySemaphoreOrdersProcesses(t *testing.T) {
	if os.Getenv(peerVariable) != "" {
		d := opened(t, separateMemory)
		from, err := d.NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		memory, semaphore := received(t, "memory"), received(t, "semaphore")
		mx, err := core.UnmarshalExternalMemory(memory, []int{3})
		if err != nil {
			t.Fatal(err)
		}
		sx, err := core.UnmarshalExternalSemaphore(semaphore, []int{4})
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.(core.MemoryImporter).ImportMemory(t.Context(), mx)
		if err != nil {
			t.Fatal(err)
		}
		shared := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{sharedBytes}}))
		sem, err := d.(core.SemaphoreImporter).ImportSemaphore(t.Context(), sx)
		if err != nil {
			t.Fatal(err)
		}
		defer sem.Close()
		source := row(t, d, sharedBytes, core.AllocOptions{})
		put(t, d, source, bytes.Repeat([]byte{7}, sharedBytes))
		if err := errors.Join(d.Copy(t.Context(), from, shared, source), sem.Signal(from, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.NewFile(5, "submitted").Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		return
	}
	s := binarySides(t)
	defer func() { _ = s.wait.Release(context.Background(), 1) }()
	b, err := s.written.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.signals.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	out := runPeer(t, x, s.handle)
	if err := errors.Join(s.wait.WaitOn(s.to, 1), s.waits.Copy(t.Context(), s.to, s.out, s.as)); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s.waits, s.out); !bytes.Equal(got, bytes.Repeat([]byte{7}, sharedBytes)) {
		t.Error("the wait was over before the other process had written")
	}
	out()
}

// received returns a message that runPeer sent.
func received(t *testing.T, what string) []byte {
	t.Helper()
	data, err := hex.DecodeString(os.Getenv(peerVariable + "_" + what))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// runPeer runs the test in another process, which has the descriptors of the handles as 3 and 4. It returns when that
// process has submitted its work. wait ends the test unless the process has ended well.
func runPeer(t *testing.T, x core.ExternalMemory, sem core.ExternalSemaphore) (wait func()) {
	t.Helper()
	submitted, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer submitted.Close()
	memory, fds, err := x.MarshalWithFDs()
	if err != nil {
		t.Fatal(err)
	}
	semaphore, more, err := sem.MarshalWithFDs()
	if err != nil {
		t.Fatal(err)
	}
	peer := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestABinarySemaphoreOrdersProcesses$", "-test.v")
	peer.Env = append(os.Environ(), peerVariable+"=1", peerVariable+"_memory="+hex.EncodeToString(memory),
		peerVariable+"_semaphore="+hex.EncodeToString(semaphore))
	for _, fd := range append(fds, more...) {
		own, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		file := os.NewFile(uintptr(own), "shared")
		defer file.Close()
		peer.ExtraFiles = append(peer.ExtraFiles, file)
	}
	peer.ExtraFiles = append(peer.ExtraFiles, w)
	var out bytes.Buffer
	peer.Stdout, peer.Stderr = &out, &out
	err = peer.Start()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	end := func() {
		t.Helper()
		if err := peer.Wait(); err != nil {
			t.Fatalf("the other process: %v\n%s", err, out.String())
		}
	}
	if n, _ := submitted.Read(make([]byte, 1)); n != 1 { // it has ended
		end()
		t.Fatalf("the other process has not submitted its work:\n%s", out.String())
	}
	return end
}

func TestADescriptorThatIsNoBinarySemaphoreIsRefused(t *testing.T) {
	s := binarySides(t)
	b, _ := s.written.Buffer()
	x, err := s.signals.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	file, err := unix.MemfdCreate("SwiftShader.Memory.1", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(file) }()
	before := descriptors()
	for what, fd := range map[string]int{"memory": coretest.FD(t, x.Handle), "a pipe": int(r.Fd()), "a file": file} {
		bad := s.handle
		bad.Handle = coretest.HandleOf(t, core.HandleBinaryFD, fd)
		_, err := s.waits.(core.SemaphoreImporter).ImportSemaphore(t.Context(), bad)
		wantError(t, err, core.ErrInvalid, what)
		if err := bad.Handle.Close(); err != nil {
			t.Errorf("%s: the handle was taken: %v", what, err)
		}
	}
	wantDescriptors(t, before, "after refused imports")
}

// A device that gets lost before its signal comes does not hold the other device up.
func TestALostSignallerOfABinarySemaphoreIsReplaced(t *testing.T) {
	s := binarySides(t)
	if err := s.wait.WaitOn(s.to, 1); err != nil { // as if the lost device had dropped its signal
		t.Fatal(err)
	}
	faults.Every(faults.DeviceLost)
	wantErr := s.signal.Signal(s.from, 1)
	faults.Disarm()
	wantError(t, wantErr, core.ErrDeviceLost, "Signal of a lost device")
	if err := errors.Join(s.wait.Release(t.Context(), 1), s.to.Synchronize(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// dropped is a semaphore whose signals never come: the device is lost before them.
type dropped struct{ core.BinarySemaphore }

func (dropped) Signal(core.Stream, uint64) error { return nil }

// A link notices that the device that signals is lost, and ends the wait of the other device.
func TestALinkReleasesAWaitForALostDevice(t *testing.T) {
	s := binarySides(t)
	gate, err := s.signals.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	source := row(t, s.signals, sharedBytes, core.AllocOptions{})
	if err := errors.Join(gate.WaitOn(s.from, 1), s.signals.Copy(t.Context(), s.from, s.written, source)); err != nil {
		t.Fatal(err)
	}
	link := stream.NewSharedSemaphore(dropped{s.signal}, s.wait)
	defer func() { _ = s.wait.Release(context.Background(), 1) }() // where the link does not
	how, err := link.Handoff(t.Context(), s.written, s.from, s.to)
	if err != nil || how != stream.SemaphoreWait {
		t.Fatal(how, err)
	}
	if err := s.waits.Copy(t.Context(), s.to, s.out, s.as); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	err = s.to.Synchronize(ctx)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the loss: %v", err)
	}
	_ = inner(s.signals).NoteLoss(errorf(core.ErrDeviceLost, "test", "the device is lost"))
	_ = s.from.Synchronize(t.Context()) // notices the loss
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.to.Synchronize(ctx); err != nil {
		t.Fatalf("the stream that waits: %v", err)
	}
	wantError(t, s.written.WaitReady(t.Context()), core.ErrDeviceLost, "what the lost device should have written")
	if link.Reusable() {
		t.Error("a semaphore whose signal may still come counts as reusable")
	}
	if err := link.Close(); err != nil {
		t.Error(err)
	}
}
