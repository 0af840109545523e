//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
)

// job is the work of one copy: commands of OpenGL, and work of the host between them. Its ctx may end at any
// time.
type job struct {
	device *device
	ctx    context.Context
	began  bool     // something may have been written
	issued bool     // commands were issued and not waited for
	after  []func() // functions to call when OpenGL is done with the job
}

// perform calls work, and calls over with the error of work when OpenGL is done with all commands. Normally
// both have returned when perform returns. But if ctx can end and work fails after commands were issued, over
// is called later, when the context's thread has seen that the commands are done. If the thread takes no
// calls, that is never.
func (d *device) perform(ctx context.Context, work func(*job) error, over func(j *job, err error)) error {
	j := &job{device: d, ctx: ctx}
	err := work(j)
	end := func() {
		// A lost context has no work left. A context that is not current may have.
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

// host lets the host copy, in as many goroutines as Go runs at a time.
func (j *job) host(k hostcopy.Job) error {
	j.began = true
	return run(k)
}

// Pauses between two checks of a fence.
const (
	firstPause = 10 * time.Microsecond
	lastPause  = time.Millisecond
)

// finish waits until OpenGL is done with every command that was issued before. Shaders and the host then see
// what they wrote.
func (j *job) finish() error {
	if d := j.device; d.stop != nil && d.finished.Load() >= d.issued.Load() {
		return nil
	}
	return j.complete("glClientWaitSync", nil)
}

// complete issues the commands of f, which may be nil, and waits as finish does. It polls a fence, so that
// the context's thread is free for other calls.
func (j *job) complete(call string, f func()) error {
	d := j.device
	var fence uintptr
	var issued uint64
	begun := false // f was called
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var passed bool
		var waited, status uint32
		err := d.do(j.ctx, call, func() {
			if !begun {
				begun = true
				j.began = j.began || f != nil
				d.issue(f)
				issued = d.issued.Load()
				fence = d.driver.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0)
			}
			waited = d.driver.clientWaitSync(fence, gl.SYNC_FLUSH_COMMANDS_BIT, 0) // which fails for a fence that was not made
			if passed = waited == gl.ALREADY_SIGNALED || waited == gl.CONDITION_SATISFIED; passed {
				gl.DeleteSync(fence)
			}
			status = d.resetStatus()
		})
		switch {
		case err != nil:
		case status != gl.NO_ERROR:
			err = d.failed("glGetGraphicsResetStatus", status)
		case !passed && waited != gl.TIMEOUT_EXPIRED:
			err = core.Errorf(core.ErrInvalid, "gl", "glClientWaitSync", "it returned %#x, and not whether the commands are done", waited)
		}
		if err != nil && begun && !passed {
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
