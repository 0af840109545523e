//go:build webgpu && linux && cgo

package webgpu

import (
	"testing"

	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
)

// The library waits for copies of few bytes, and not for more, nor behind work of the program: that would keep others from submitting.
func TestTheLibraryWaitsForBriefCopiesOnly(t *testing.T) {
	const few, many = 4 << 10, 33 << 20
	d := open(t).(*device)
	defer closeDevice(t, d)
	var buffers [2]*buffer
	for i := range buffers {
		var err error
		if buffers[i], err = d.newBuffer("test", wgpu.Memory, many); err != nil {
			t.Fatal(err)
		}
		defer release(buffers[i].handle)
	}
	program, _, err := wgpu.Wrap(d.native.Native())
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	submit := func(by *wgpu.Device, times int, size int64) *wgpu.Work {
		t.Helper()
		w, err := by.Submit("test", func(e *wgpu.Encoder) {
			for range times {
				e.Copy(buffers[0].handle, 0, buffers[1].handle, 0, size)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	expect := func(what string, w *wgpu.Work, want bool) {
		t.Helper()
		if w.Brief() != want {
			t.Errorf("%s: the library waits: %v, want %v", what, w.Brief(), want)
		}
		if err := wait(w, nil); err != nil {
			t.Fatal(err)
		}
	}
	expect("few bytes", submit(d.native, 1, few), true)
	expect("many bytes", submit(d.native, 1, many), false)
	expect("few bytes after many that are done", submit(d.native, 1, few), true)
	for behind := false; !behind; {
		before := submit(program, 8, many)
		w := submit(d.native, 1, few)
		done, err := before.Done("test")
		if err != nil {
			t.Fatal(err)
		}
		behind = !w.Brief() || !done // else the work of the program may have been done before w was submitted
		if done {
			before.Drop()
		} else if err := wait(before, nil); err != nil {
			t.Fatal(err)
		}
		expect("few bytes behind work of the program", w, !behind)
	}
}
