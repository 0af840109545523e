package backendtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// env is what a case works with: a test, a newly opened device, and calls that end the case if they fail. It
// closes at the end what it opened.
type env struct {
	testing.TB
	cfg   config
	ctx   context.Context // ends when the case takes too long
	dev   core.Device
	props core.Properties
	rng   *rand.Rand
}

// open opens a device and closes it last, which must work and work twice.
func (e *env) open(open func(testing.TB) core.Device) core.Device {
	e.Helper()
	d := open(e)
	if d == nil {
		e.Fatalf("open returned no device")
	}
	e.Cleanup(func() {
		// Memory whose release waits for its last work may take a moment.
		var err error
		eventually(e.cfg.Timeout, func() bool { err = d.Close(); return !errors.Is(err, core.ErrInvalid) })
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			e.Errorf("Close of the device, with nothing open on it: %v", err)
		}
	})
	return d
}

// check ends the case if a call failed that must succeed.
func (e *env) check(err error, format string, args ...any) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// wantError checks that a call failed, with an error that wraps the sentinel and names backend and call.
func (e *env) wantError(err, sentinel error, format string, args ...any) {
	e.Helper()
	what := fmt.Sprintf(format, args...)
	if !errors.Is(err, sentinel) {
		e.Errorf("%s: error %v, want %q", what, err, sentinel)
		return
	}
	e.wantTyped(err, what)
}

// wantTyped checks that a call failed with an error that names its backend and call.
func (e *env) wantTyped(err error, what string) {
	e.Helper()
	var typed *core.Error
	if !errors.As(err, &typed) || typed.Backend == "" || typed.Call == "" {
		e.Errorf("%s: error %v is not a *core.Error that names backend and call", what, err)
	}
}

// wantContext checks that a call failed because its context ended; see soon.
func (e *env) wantContext(err error, what string) {
	e.Helper()
	if !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("%s: error %v, want %q", what, err, context.DeadlineExceeded)
	}
}

// stream opens a stream.
func (e *env) stream() core.Stream {
	e.Helper()
	s, err := e.dev.NewStream(e.ctx)
	e.check(err, "NewStream")
	e.Cleanup(func() {
		if err := s.Close(); err != nil {
			e.Errorf("Close of a stream: %v", err)
		}
	})
	return s
}

// synchronize waits for a stream.
func (e *env) synchronize(s core.Stream) {
	e.Helper()
	e.check(s.Synchronize(e.ctx), "Synchronize")
}

// record returns an event of a stream.
func (e *env) record(s core.Stream) core.Event {
	e.Helper()
	ev, err := s.Record()
	e.check(err, "Record")
	return ev
}

// keep closes a tensor at the end, if the case did not.
func (e *env) keep(t *core.Tensor, err error) *core.Tensor {
	e.Helper()
	e.check(err, "making a tensor")
	e.Cleanup(func() { _ = t.Close() }) // a tensor's Close never fails
	return t
}

// bytes allocates n bytes on the device, as a uint8 tensor.
func (e *env) bytes(n int64) *core.Tensor {
	e.Helper()
	return e.keep(core.Empty(e.ctx, e.dev, core.TypeUint8, []int64{n}, core.AllocOptions{}))
}

// hostBytes makes a uint8 tensor of p, which it shares.
func (e *env) hostBytes(p []byte) *core.Tensor {
	e.Helper()
	return e.keep(core.FromSlice(p))
}

// copy enqueues a copy, or does it if s is nil.
func (e *env) copy(s core.Stream, dst, src *core.Tensor) {
	e.Helper()
	e.check(e.dev.Copy(e.ctx, s, dst, src), "Copy(%v <- %v)", dst, src)
}

// upload allocates memory on the device with the contents of p.
func (e *env) upload(p []byte) *core.Tensor {
	e.Helper()
	t := e.bytes(int64(len(p)))
	e.write(t, p)
	return t
}

// write overwrites a uint8 tensor of the device.
func (e *env) write(t *core.Tensor, p []byte) {
	e.Helper()
	host := e.hostBytes(p)
	e.copy(nil, t, host)
	_ = host.Close()
}

// download reads a uint8 tensor of the device.
func (e *env) download(t *core.Tensor) []byte {
	e.Helper()
	p := make([]byte, t.NumElements())
	host := e.hostBytes(p)
	e.copy(nil, host, t)
	_ = host.Close()
	return p
}

// wantBytes checks the content of a uint8 tensor of the device.
func (e *env) wantBytes(t *core.Tensor, want []byte, format string, args ...any) {
	e.Helper()
	if got := e.download(t); !bytes.Equal(got, want) {
		e.Errorf("%s: %s", fmt.Sprintf(format, args...), difference(got, want))
	}
}

// pattern makes n random bytes.
func (e *env) pattern(n int64) []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], e.rng.Uint64())
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(p) // never fails
	return p
}

// start runs f beside the case; finish waits for it. f must not end the test.
func (e *env) start(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// finish waits for what start began and returns its error.
func (e *env) finish(done <-chan error) error {
	e.Helper()
	select {
	case err := <-done:
		return err
	case <-e.ctx.Done():
		e.Fatalf("a call did not return: %v", e.ctx.Err())
		return nil
	}
}
