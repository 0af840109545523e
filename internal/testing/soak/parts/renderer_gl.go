//go:build gl && linux && cgo

package parts

import (
	"runtime"
	"sync"
	"time"

	calls "github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/gl"
)

// HasRenderer reports whether a program can have a context of OpenGL of its own.
const HasRenderer = true

// renderer is a thread of the program that draws frames.
type renderer struct {
	loop *gl.Loop
	ends chan func() error
	done chan error

	mu      sync.Mutex
	deletes []uint32
}

// renderers are those that run, by the device that their context was wrapped as.
var renderers sync.Map

// Renderer starts a thread with a context of its own, which serves a loop once a frame,
// and returns the device that the context was wrapped as. [EndRenderer] ends it.
func Renderer() (core.Device, error) {
	r := &renderer{ends: make(chan func() error), done: make(chan error)}
	var d core.Device
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		destroy, err := gl.NewContext(0)
		if err != nil {
			ready <- err
			return
		}
		r.loop = gl.NewLoop()
		if d, err = gl.Wrap(r.loop.Run); err != nil {
			destroy()
			ready <- err
			return
		}
		ready <- nil
		r.draw()
		destroy()
		r.done <- nil
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	renderers.Store(d, r)
	return d, nil
}

// draw draws frames until the device was closed.
func (r *renderer) draw() {
	for {
		_ = r.loop.Poll() // this is its thread
		r.mu.Lock()
		if n := len(r.deletes); n > 0 {
			calls.DeleteBuffers(int32(n), &r.deletes[0])
			r.deletes = nil
		}
		r.mu.Unlock()
		select {
		case end := <-r.ends:
			err := r.loop.Call(end)
			if err == nil {
				return
			}
			r.done <- err
		case <-time.After(50 * time.Microsecond):
		}
	}
}

// EndRenderer closes the device of a renderer, as its own thread does it, and then ends the thread.
func EndRenderer(d core.Device) error {
	x, ok := renderers.Load(d)
	if !ok {
		return d.Close()
	}
	r := x.(*renderer)
	r.ends <- d.Close
	err := <-r.done
	if err == nil {
		renderers.Delete(d)
	}
	return err
}

// Buffer makes a buffer with these bytes in the context of a renderer, and a tensor on it,
// which deletes the buffer.
func Buffer(d core.Device, fill []byte, s core.Spec) (*core.Tensor, error) {
	x, ok := renderers.Load(d)
	if !ok {
		return nil, core.Errorf(core.ErrDevice, "soak", "Buffer", "%v is no device of a renderer", d.ID())
	}
	r := x.(*renderer)
	var name uint32
	size := max(len(fill), 1)
	r.loop.Run(func() {
		calls.CreateBuffers(1, &name)
		calls.NamedBufferData(name, size, nil, calls.DYNAMIC_DRAW)
		if len(fill) > 0 {
			calls.NamedBufferSubData(name, 0, len(fill), calls.Ptr(fill))
		}
	})
	forget := core.FreeFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.deletes = append(r.deletes, name)
	})
	t, err := gl.Import(d, name, int64(size), s, forget)
	if err != nil {
		forget()
	}
	return t, err
}
