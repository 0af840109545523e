//go:build linux && cgo

package gpusimtest

/*
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
	int (*call)(int *); // what the function calls, or NULL
	const volatile unsigned char *watched;
	int naps; // milliseconds before it looks
	int argument, result, saw, status;
	atomic_int runs;
} host_work;

static void host_run(void *data) {
	host_work *w = data;
	const struct timespec nap = {.tv_nsec = w->naps * 1000000L};
	nanosleep(&nap, NULL);
	w->saw = *w->watched;
	if (w->call) w->result = w->call(&w->argument);
	atomic_fetch_add(&w->runs, 1);
}

static void host_called_back(void *stream, int status, void *data) {
	(void)stream;
	((host_work *)data)->status = status;
	host_run(data);
}

static void *host_function(void) { return (void *)host_run; }
static void *host_callback(void) { return (void *)host_called_back; }
static int host_runs(host_work *w) { return atomic_load(&w->runs); }
*/
import "C"

import (
	"runtime"
	"time"
	"unsafe"
)

// HostWork is a host function in C, for cuLaunchHostFunc or cuStreamAddCallback. It sleeps, reads a byte, and
// calls a function of the driver if there is one to call.
type HostWork struct{ work *C.host_work }

// NewHostWork makes a host function that sleeps for nap and then reads watched, which must not move until the
// test ends. call is empty, or the name of a driver function that takes a pointer to an int.
func (d *Driver) NewHostWork(watched *byte, nap time.Duration, call string) *HostWork {
	w := (*C.host_work)(C.calloc(1, C.sizeof_host_work))
	var pin runtime.Pinner
	pin.Pin(watched)
	w.watched = (*C.uchar)(unsafe.Pointer(watched))
	w.naps = C.int(nap.Milliseconds())
	if call != "" {
		w.call = (*[0]byte)(d.symbol(call))
	}
	d.tb.Cleanup(func() {
		C.free(unsafe.Pointer(w))
		pin.Unpin()
	})
	return &HostWork{w}
}

// Function returns the address of the function as a CUhostFn.
func (*HostWork) Function() uintptr { return uintptr(C.host_function()) }

// Callback returns the address of the function as a CUstreamCallback.
func (*HostWork) Callback() uintptr { return uintptr(C.host_callback()) }

// Data returns the argument to pass with the function.
func (w *HostWork) Data() uintptr { return uintptr(unsafe.Pointer(w.work)) }

// Runs returns how often the function ran. Saw, Result and Status report on the last run.
func (w *HostWork) Runs() int { return int(C.host_runs(w.work)) }

// Saw returns the byte that the function read.
func (w *HostWork) Saw() byte { return byte(w.work.saw) }

// Result returns what the call of the driver function returned.
func (w *HostWork) Result() Result { return Result(w.work.result) }

// Status returns the status that was passed to the callback.
func (w *HostWork) Status() Result { return Result(w.work.status) }
