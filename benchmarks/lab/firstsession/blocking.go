//go:build cuda && vulkan && linux && cgo

package main

// #include "raw.h"
import "C"

import (
	"fmt"
	"runtime"
	"time"
)

// returnsAfter is how long a call that was blocked may take once the wait is satisfied.
const returnsAfter = 10 * time.Second

// notReady is CUDA_ERROR_NOT_READY.
const notReady = 600

// blockingExperiments makes an experiment of each call, for one way to wait: for a timeline semaphore, or for a word
// in memory (cuStreamWaitValue32), which needs no Vulkan.
func blockingExperiments(wait string) []experiment {
	var all []experiment
	for i := range C.fs_block_count() {
		name := C.GoString(C.fs_block_name(i))
		all = append(all, experiment{
			name:  fmt.Sprintf("blocking/%s/%s", wait, name),
			about: fmt.Sprintf("whether %s returns while another stream waits for a %s", name, wait),
			limit: 30 * time.Second,
			do:    func(r *reporter) error { return examineBlocking(r, i, wait == "semaphore") },
		})
	}
	return all
}

// answer is what a call on another thread returned, and after how long.
type answer struct {
	code C.int
	took time.Duration
}

// onThread makes a call on a thread of its own. The call begins when go is called.
func onThread(call func() C.int) (start func() <-chan answer) {
	ready, begin, done := make(chan struct{}), make(chan struct{}), make(chan answer, 1)
	go func() {
		runtime.LockOSThread()
		C.fs_cuda_current()
		close(ready)
		<-begin
		start := time.Now()
		code := call()
		done <- answer{code, time.Since(start)}
	}()
	<-ready
	return func() <-chan answer {
		close(begin)
		return done
	}
}

func within(limit time.Duration, done <-chan answer) (answer, bool) {
	select {
	case a := <-done:
		return a, true
	case <-time.After(limit):
		return answer{}, false
	}
}

func examineBlocking(r *reporter, i C.int, semaphore bool) error {
	runtime.LockOSThread()
	c, err := r.openCUDA()
	if err != nil {
		return err
	}
	if err := cudaError(C.fs_block_open()); err != nil {
		return err
	}
	satisfy := func() error { C.fs_block_word(); return nil }
	needs := C.fs_block_needs(i)
	var newTimeline func() (timeline, error)
	if semaphore || needs&C.FS_NEEDS_SEMAPHORE != 0 {
		if newTimeline, err = r.timelines(c); err != nil {
			return err
		}
	}
	if semaphore {
		t, err := newTimeline()
		if err != nil {
			return err
		}
		if err := cudaError(C.fs_cuda_semaphore(C.int(t.fd))); err != nil {
			return err
		}
		satisfy = func() error { return t.signal(1) }
	}
	fd, size, err := r.descriptor(c, needs, newTimeline)
	if err != nil {
		return err
	}
	if err := cudaError(C.fs_block_prepare(i, C.int(fd), C.uint64_t(size))); err != nil {
		return skip(err.Error())
	}

	// Made before the wait: making a context current might block, too.
	call := onThread(func() C.int { return C.fs_block_call(i) })
	others := []struct {
		name  string
		start func() <-chan answer
	}{
		{"cuStreamQuery of another stream", onThread(func() C.int { return C.fs_block_other_query() })},
		{"copy of pinned memory on another stream", onThread(func() C.int { return C.fs_block_other_copy() })},
	}
	if err := cudaError(C.fs_block_wait(toInt(semaphore))); err != nil {
		return skip("the stream cannot wait: " + err.Error())
	}
	time.Sleep(20 * time.Millisecond) // so that the device has begun to wait
	if code := C.fs_block_waiting(); code != notReady {
		return fmt.Errorf("the stream does not wait: cuStreamQuery returned %s", cudaCode(code))
	}

	found := row{"call": C.GoString(C.fs_block_name(i))}
	done := call()
	a, returned := within(r.blocked, done)
	found["blocks"] = !returned
	if returned {
		found["code"], found["ns"] = cudaCode(a.code), a.took.Nanoseconds()
	} else {
		meanwhile := row{}
		for _, o := range others {
			if b, ok := within(r.blocked/4, o.start()); ok {
				meanwhile[o.name] = cudaCode(b.code)
			} else {
				meanwhile[o.name] = "blocks"
			}
		}
		found["meanwhile"] = meanwhile
	}
	r.row(found) // what follows may hang
	released := row{"when": "the wait is satisfied"}
	signaled := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		signaled <- satisfy()
	}()
	select {
	case err := <-signaled:
		if err != nil {
			return fmt.Errorf("the wait cannot be satisfied: %w", err)
		}
		released["signal_returns"] = true
	case <-time.After(returnsAfter):
		released["signal_returns"] = false
	}
	if !returned {
		a, returned = within(returnsAfter, done)
		if released["call_returns"] = returned; returned {
			released["code"] = cudaCode(a.code)
		}
	}
	r.row(released)
	return nil
}

// descriptor exports what a call imports.
func (r *reporter) descriptor(c *card, needs C.int, newTimeline func() (timeline, error)) (fd int, size uint64, err error) {
	switch {
	case needs&C.FS_NEEDS_SEMAPHORE != 0:
		t, err := newTimeline()
		return t.fd, 0, err
	case needs&C.FS_NEEDS_MEMORY != 0:
		return r.exportedMemory(c, 32<<20)
	}
	return -1, 0, nil
}

// exportedMemory exports memory of the Vulkan device. The caller owns the descriptor.
func (r *reporter) exportedMemory(c *card, want uint64) (fd int, size uint64, err error) {
	if err := r.openVulkan(c); err != nil {
		return -1, 0, err
	}
	var out C.int
	var allocated C.uint64_t
	if err := vkError(C.fs_vk_export_memory(C.uint64_t(want), &out, &allocated)); err != nil {
		return -1, 0, skip(err.Error())
	}
	return int(out), uint64(allocated), nil
}

func toInt(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
