//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
)

// job is the work of one copy: commands of OpenGL and what the host does between
// them. Its ctx may end at any time.
type job struct {
	device *device
	ctx    context.Context
	began  bool     // something may have been written
	issued bool     // commands were issued that nobody has waited for
	after  []func() // what is given back when OpenGL is done with the job
}

// perform does work, and calls over with its error when OpenGL is done with all that
// was issued. Both have happened when it returns, unless ctx can end and work fails after
// commands were issued: then over is called when the context's thread has seen that
// they are done, which is never where nobody serves that.
func (d *device) perform(ctx context.Context, work func(*job) error, over func(j *job, err error)) error {
	j := &job{device: d, ctx: ctx}
	err := work(j)
	end := func() {
		// A context that is lost has no work; one that is not current has.
		for j.issued && errors.Is(d.finish(context.Background()), errNotCurrent) {
			time.Sleep(lastPause)
		}
		for _, f := range slices.Backward(j.after) {
			f()
		}
		over(j, err)
	}
	if j.issued && ctx.Done() != nil {
		go end()
	} else {
		end()
	}
	return err
}

// host has the host copy, in as many goroutines as Go runs at a time.
func (j *job) host(k copykernel.Job) error {
	j.began = true
	return run(k)
}

// Pauses between two looks at a fence.
const (
	firstPause = 10 * time.Microsecond
	lastPause  = time.Millisecond
)

// finish waits until OpenGL is done with every command that was issued before, and
// both shaders and the host see what they wrote.
func (j *job) finish() error {
	if d := j.device; d.stop != nil && d.finished.Load() >= d.issued.Load() {
		return nil
	}
	return j.complete("glClientWaitSync", nil)
}

// complete issues the commands of f, which may be nil, and waits as finish does. It
// looks at a fence now and then, so that the context's thread is free for others.
func (j *job) complete(call string, f func()) error {
	d := j.device
	var fence uintptr
	var issued uint64
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var passed bool
		var status uint32
		err := d.do(j.ctx, call, func() {
			if fence == 0 {
				j.began = j.began || f != nil
				d.issue(f)
				issued = d.issued.Load()
				fence = gl.FenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0)
			}
			if passed = d.driver.clientWaitSync(fence, gl.SYNC_FLUSH_COMMANDS_BIT, 0) != gl.TIMEOUT_EXPIRED; passed {
				gl.DeleteSync(fence)
			}
			status = d.resetStatus()
		})
		if err == nil && status != gl.NO_ERROR {
			err = d.failed("glGetGraphicsResetStatus", status)
		}
		if err != nil && fence != 0 && !passed {
			j.issued = j.issued || f != nil
			d.discard(func() { gl.DeleteSync(fence) })
		}
		if err != nil {
			return err
		}
		if passed {
			break
		}
		time.Sleep(pause)
	}
	for {
		finished := d.finished.Load()
		if finished >= issued || d.finished.CompareAndSwap(finished, issued) {
			return nil
		}
	}
}
