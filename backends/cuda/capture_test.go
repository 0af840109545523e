//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// The modes of cuStreamBeginCapture.
const (
	captureGlobal      = 0
	captureThreadLocal = 1
)

// capture makes a stream, as another library does, and begins to capture it into a graph on this thread. It returns
// the stream. end ends the capture, and fails the test if the capture is not valid any more.
func capture(t *testing.T, mode int) (stream uintptr, end func()) {
	t.Helper()
	other := gpusimtest.Start(t)
	var s, graph uint64
	other.OK("cuStreamCreate", &s, 1)
	t.Cleanup(func() { other.OK("cuStreamDestroy_v2", s) })
	other.OK("cuStreamBeginCapture_v2", s, mode)
	return uintptr(s), func() {
		t.Helper()
		other.OK("cuStreamEndCapture", s, &graph)
		other.OK("cuGraphDestroy", graph)
	}
}

func TestACaptureOfAnotherLibraryStaysValid(t *testing.T) {
	for _, mode := range []int{captureGlobal, captureThreadLocal} {
		simulator(t)
		_, end := capture(t, mode)
		// This goroutine is locked to the thread that captures. Other goroutines run on other threads.
		for range 2 {
			if err := kit.WholeLife(t.Context()); err != nil {
				t.Errorf("mode %d, on the thread that captures: %v", mode, err)
			}
			done := make(chan error)
			go func() { done <- kit.WholeLife(t.Context()) }()
			if err := <-done; err != nil {
				t.Errorf("mode %d, on another thread: %v", mode, err)
			}
		}
		end()
	}
}

func TestACapturedStreamIsRefusedAndItsCaptureStaysValid(t *testing.T) {
	simulator(t)
	native, end := capture(t, captureGlobal)
	d := opened(t)
	a, b := row(t, d, 10000, core.AllocOptions{}), row(t, d, 10000, core.AllocOptions{})
	put(t, d, a, pattern(10000, 1))
	put(t, d, b, pattern(10000, 2))
	host := keep(t)(core.FromSlice(make([]byte, 10000)))
	s, err := d.(core.StreamImporter).ImportStream(t.Context(), native)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newStream(t, d).Record()
	if err != nil {
		t.Fatal(err)
	}
	across := keep(t)(core.FromSlice(make([]byte, 10000), 100, 100))
	for what, call := range map[string]func() error{
		"Copy in the device":    func() error { return d.Copy(t.Context(), s, a, b) },
		"Copy from pageable":    func() error { return d.Copy(t.Context(), s, a, host) },
		"Copy from its columns": func() error { return d.Copy(t.Context(), s, keep(t)(a.Reshape(100, 100)), keep(t)(across.Transpose())) },
		"Copy by a kernel": func() error {
			return d.Copy(t.Context(), s, keep(t)(a.Reshape(100, 100)), keep(t)(keep(t)(b.Reshape(100, 100)).Transpose()))
		},
		"Record":      func() error { _, err := s.Record(); return err },
		"Wait":        func() error { return s.Wait(e) },
		"Synchronize": func() error { return s.Synchronize(t.Context()) },
	} {
		wantError(t, call(), core.ErrNotSupported, what)
	}
	if x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{10000}, core.AllocOptions{Stream: s}); err != nil {
		t.Errorf("Alloc for a captured stream, which waits for nothing: %v", err)
	} else if err := x.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close of an import of a captured stream: %v", err)
	}
	end()
	if !bytes.Equal(get(t, d, a), pattern(10000, 1)) {
		t.Error("a copy that failed wrote to its destination")
	}
}

func TestTheLegacyStreamIsRefusedWhileAStreamThatWaitsForItIsCaptured(t *testing.T) {
	simulator(t)
	other := gpusimtest.Start(t)
	d := opened(t)
	legacy, err := d.(core.StreamImporter).ImportStream(t.Context(), backend.LegacyStream)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = legacy.Close() }()
	var s, graph uint64
	other.OK("cuStreamCreate", &s, 0) // not CU_STREAM_NON_BLOCKING
	other.OK("cuStreamBeginCapture_v2", s, captureGlobal)
	a, b := row(t, d, 100, core.AllocOptions{}), row(t, d, 100, core.AllocOptions{})
	wantError(t, d.Copy(t.Context(), legacy, a, b), core.ErrNotSupported, "Copy on the legacy stream")
	if err := d.Copy(t.Context(), nil, a, b); err != nil {
		t.Errorf("Copy without a stream: %v", err)
	}
	// cuStreamIsCapturing: "The blocking stream capture is not invalidated."
	other.OK("cuStreamEndCapture", s, &graph)
	other.OK("cuGraphDestroy", graph)
	other.OK("cuStreamDestroy_v2", s)
}
