//go:build cuda && vulkan && linux && cgo

package main

// #include "raw.h"
import "C"

import (
	"errors"
	"runtime"
	"slices"
	"time"
)

var latencyExperiment = experiment{
	name:  "latency",
	about: "from a signal, of the host and of CUDA, to those who wait for it: the host, and a queue of Vulkan",
	limit: 40 * time.Second,
	do:    examineLatency,
}

// limitNS is how long a wait of Vulkan's may take, in nanoseconds.
const limitNS = 10e9

// quantiles reports times in nanoseconds.
func quantiles(name string, times []int64) row {
	slices.Sort(times)
	at := func(q float64) int64 { return times[int(q*float64(len(times)-1))] }
	return row{"from_to": name, "rounds": len(times), "min_ns": at(0), "median_ns": at(0.5), "p90_ns": at(0.9), "max_ns": at(1)}
}

// waiter waits on a thread of its own, and says at which time that ended.
func waiter(wait func() error) (ended func() (int64, error)) {
	type end struct {
		at  int64
		err error
	}
	ready, done := make(chan struct{}), make(chan end, 1)
	go func() {
		runtime.LockOSThread()
		close(ready)
		err := wait()
		done <- end{int64(C.fs_now()), err}
	}()
	<-ready
	return func() (int64, error) {
		e := <-done
		return e.at, e.err
	}
}

// spin waits without sleeping, until others have begun to wait.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
		runtime.Gosched()
	}
}

func examineLatency(r *reporter) error {
	runtime.LockOSThread()
	c, missing := r.tryCUDA()
	if err := r.openVulkan(c); err != nil {
		return err
	}
	rounds := 300
	if r.small {
		rounds = 20
	}
	var local, second C.uint64_t // timelines of Vulkan alone
	if err := errors.Join(vkError(C.fs_vk_semaphore(0, &local, nil)), vkError(C.fs_vk_semaphore(0, &second, nil))); err != nil {
		return err
	}
	value := C.uint64_t(0) // of local; that of second never decreases either
	host := func() error { return vkError(C.fs_vk_signal(local, value)) }
	if err := r.latency("host to vkWaitSemaphores", rounds, &value, waitFor(local), nil, host); err != nil {
		return err
	}
	forward := func() error { return vkError(C.fs_vk_forward(0, local, value, second, value)) }
	if err := r.latency("host to a queue of Vulkan to vkWaitSemaphores", rounds, &value, waitFor(second), forward, host); err != nil {
		return err
	}
	if c == nil {
		r.row(row{"from_to": "CUDA to Vulkan", "missing": missing})
		return nil
	}
	newTimeline, err := r.timelines(c)
	if errors.As(err, new(skip)) {
		r.row(row{"from_to": "CUDA to Vulkan", "missing": err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	return r.cudaLatency(rounds, newTimeline)
}

// waitFor returns a function that waits on the host for a value of a semaphore of Vulkan.
func waitFor(semaphore C.uint64_t) func(C.uint64_t) error {
	return func(value C.uint64_t) error { return vkError(C.fs_vk_wait(semaphore, value, limitNS)) }
}

// latency measures from signal to the end of a wait. value counts the rounds, and before, if not nil, is called before
// each signal.
func (r *reporter) latency(name string, rounds int, value *C.uint64_t, wait func(C.uint64_t) error, before, signal func() error) error {
	times := make([]int64, rounds)
	for i := range times {
		*value++
		if before != nil {
			if err := before(); err != nil {
				return err
			}
		}
		want := *value
		ended := waiter(func() error { return wait(want) })
		spin(200 * time.Microsecond)
		start := int64(C.fs_now())
		if err := signal(); err != nil {
			return err
		}
		at, err := ended()
		if err != nil {
			return err
		}
		times[i] = at - start
	}
	r.row(quantiles(name, times))
	return nil
}

// cudaLatency measures signals of CUDA's on an idle stream.
func (r *reporter) cudaLatency(rounds int, newTimeline func() (timeline, error)) error {
	shared, err := newTimeline()
	if err != nil {
		return err
	}
	if err := cudaError(C.fs_cuda_semaphore(C.int(shared.fd))); err != nil {
		return err
	}
	value := C.uint64_t(0)
	signal := func() error { return cudaError(C.fs_cuda_signal(value)) }
	// What the others are compared with.
	timed := func(name string, wait func() error) error {
		times := make([]int64, rounds)
		for i := range times {
			value++
			start := int64(C.fs_now())
			if err := signal(); err != nil {
				return err
			}
			if err := wait(); err != nil {
				return err
			}
			times[i] = int64(C.fs_now()) - start
		}
		r.row(quantiles(name, times))
		return nil
	}
	if err := timed("CUDA to cuStreamSynchronize", func() error { return cudaError(C.fs_cuda_synchronize()) }); err != nil {
		return err
	}
	if err := timed("CUDA to vkGetSemaphoreCounterValue, polled", func() error {
		for limit := time.Now().Add(limitNS); time.Now().Before(limit); {
			v, err := shared.value()
			if err != nil || v >= uint64(value) {
				return err
			}
		}
		return errors.New("vkGetSemaphoreCounterValue does not see the signal of CUDA")
	}); err != nil {
		return err
	}
	wait := func(value C.uint64_t) error { return shared.wait(uint64(value)) }
	if err := r.latency("CUDA to vkWaitSemaphores", rounds, &value, wait, nil, signal); err != nil {
		return err
	}
	if shared.semaphore == 0 {
		r.row(row{"from_to": "CUDA to a queue of Vulkan", "missing": "the timeline is the simulator's: no queue of Vulkan can wait for it"})
		return nil
	}
	var second C.uint64_t
	if err := vkError(C.fs_vk_semaphore(0, &second, nil)); err != nil {
		return err
	}
	forward := func() error { return vkError(C.fs_vk_forward(0, shared.semaphore, value, second, value)) }
	if err := r.latency("CUDA to a queue of Vulkan to vkWaitSemaphores", rounds, &value, waitFor(second), forward, signal); err != nil {
		return err
	}
	// Values of the shared semaphore in turn: CUDA's, then the queue's.
	times := make([]int64, rounds)
	for i := range times {
		value++
		if err := vkError(C.fs_vk_forward(0, shared.semaphore, value, shared.semaphore, value+1)); err != nil {
			return err
		}
		start := int64(C.fs_now())
		if err := signal(); err != nil {
			return err
		}
		value++
		if err := errors.Join(cudaError(C.fs_cuda_await(value)), cudaError(C.fs_cuda_synchronize())); err != nil {
			return err
		}
		times[i] = int64(C.fs_now()) - start
	}
	r.row(quantiles("CUDA to a queue of Vulkan to a stream of CUDA to cuStreamSynchronize", times))
	return nil
}
