//go:build gl && linux && cgo

package gl

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
)

// failOnce has the n-th next call of OpenGL that is looked at fail with code.
func failOnce(d *device, n int, code uint32) {
	d.driver.getError = func() uint32 {
		own := gl.GetError()
		if n--; n == 0 {
			return code
		}
		return own
	}
}

func TestErrorsNameTheCallAndTheCode(t *testing.T) {
	for _, c := range []struct {
		code uint32
		name string
		want error
	}{
		{gl.INVALID_ENUM, "GL_INVALID_ENUM", core.ErrNotSupported},
		{gl.INVALID_VALUE, "GL_INVALID_VALUE", core.ErrInvalid},
		{gl.INVALID_OPERATION, "GL_INVALID_OPERATION", core.ErrInvalid},
		{gl.OUT_OF_MEMORY, "GL_OUT_OF_MEMORY", core.ErrOutOfMemory},
		{0x1234, "GL error 0x1234", core.ErrInvalid},
	} {
		d := openAs(t, asItIs)
		for n, call := range []string{"glNamedBufferStorage", "glMapNamedBufferRange"} {
			failOnce(d, n+1, c.code)
			m, err := d.Alloc(t.Context(), 100, core.AllocOptions{})
			if err == nil {
				m.Free()
			}
			var typed *core.Error
			if !errors.Is(err, c.want) || !errors.As(err, &typed) || typed.Backend != "gl" || typed.Call != call ||
				typed.Code != int64(c.code) || !strings.Contains(typed.Detail, c.name) {
				t.Errorf("%s in %s: error %v", c.name, call, err)
			}
			if len(d.buffers) != 0 {
				t.Errorf("%s in %s: %d buffers are left", c.name, call, len(d.buffers))
			}
		}
		closeDevice(t, d)
	}
}

func TestALostContextFailsEveryCallAndCanBeClosed(t *testing.T) {
	for _, c := range []struct {
		rule           string
		code, status   uint32
		detail, byCall string
	}{
		{"told by an error", gl.CONTEXT_LOST, gl.NO_ERROR, "GL_CONTEXT_LOST", "glClientWaitSync"},
		{"told by the reset status", gl.NO_ERROR, gl.GUILTY_CONTEXT_RESET, "GL_GUILTY_CONTEXT_RESET", "glGetGraphicsResetStatus"},
		{"told by both", gl.CONTEXT_LOST, gl.INNOCENT_CONTEXT_RESET, "GL_INNOCENT_CONTEXT_RESET", "glClientWaitSync"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			d := opened(t, func(f *contextInfo) { f.robust = true })
			s, err := d.NewStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			a, b := row(t, d, 100, core.AllocOptions{}), row(t, d, 100, core.AllocOptions{})
			d.issued.Add(1) // there is something to wait for
			d.driver.getError, d.driver.getGraphicsResetStatus = func() uint32 { return c.code }, func() uint32 { return c.status }
			if err := d.Copy(t.Context(), s, a, b); err != nil {
				t.Fatal(err)
			}
			err = s.Synchronize(t.Context())
			var typed *core.Error
			if !errors.Is(err, core.ErrDeviceLost) || !errors.As(err, &typed) || typed.Call != c.byCall || !strings.Contains(typed.Detail, c.detail) {
				t.Errorf("Synchronize: error %v, want %s", err, c.detail)
			}
			if _, err := d.Alloc(t.Context(), 100, core.AllocOptions{}); !errors.Is(err, core.ErrDeviceLost) {
				t.Errorf("Alloc: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close of the stream: %v", err)
			}
			_, _ = a.Close(), b.Close()
		})
	}
}

// A wait that fails says nothing of the commands: they may still run.
func TestAFenceThatCannotBeWaitedForHasNotPassed(t *testing.T) {
	noWait := func(c *driver) { c.clientWaitSync = func(uintptr, uint32, uint64) uint32 { return gl.WAIT_FAILED } }
	noFence := func(c *driver) { c.fenceSync = func(uint32, uint32) uintptr { return 0 } }
	noMemory := func(c *driver) { c.getError = func() uint32 { return gl.OUT_OF_MEMORY } }
	for rule, change := range map[string]func(*driver){
		"the wait fails":                  noWait,
		"the wait fails with an error":    func(c *driver) { noWait(c); noMemory(c) },
		"there is no fence":               noFence,
		"there is no fence, nor a reason": func(c *driver) { noFence(c); noWait(c) },
	} {
		t.Run(rule, func(t *testing.T) {
			d := opened(t, asItIs)
			own, calls := d.driver, 0
			change(&d.driver)
			j := &job{device: d, ctx: t.Context()}
			err := within(t, "the job", func() error { return j.complete("glDispatchCompute", func() { calls++ }) })
			var typed *core.Error
			if !errors.As(err, &typed) || !j.began || !j.issued || calls != 1 {
				t.Errorf("error %v; began %v, issued %v, in %d calls", err, j.began, j.issued, calls)
			}
			if err := j.finish(); err == nil {
				t.Error("the commands are waited for without an error")
			}
			d.driver = own
			if err := j.finish(); err != nil || d.finished.Load() != d.issued.Load() {
				t.Errorf("a fence that passes: error %v, %d commands of %d", err, d.finished.Load(), d.issued.Load())
			}
		})
	}
}

// Whoever comes too late is told so, and nobody waits for ever.
func TestCloseWhileOthersCall(t *testing.T) {
	for range 20 {
		d := open(t)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for {
					m, err := d.Alloc(t.Context(), 1000, core.AllocOptions{})
					if errors.Is(err, core.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					m.Free()
				}
			})
		}
		for d.Close() != nil { // memory is open
			runtime.Gosched()
		}
		group.Wait()
	}
}

func TestManyOpenedDevicesLeaveNothing(t *testing.T) {
	closeDevice(t, open(t)) // what the driver opens once is open now
	before := descriptors()
	for range 10 {
		d := open(t)
		alloc := func() core.Memory {
			m, err := d.Alloc(t.Context(), 5000, core.AllocOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		alloc().Free()
		closeDevice(t, d)
	}
	wantDescriptors(t, before, "ten devices that are closed")
}
