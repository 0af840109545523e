//go:build linux && cgo

package gpusim

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// What the library offers tests, beside the driver's API.
typedef struct {
	void (*fail)(const char *, int, int);
	long (*count)(const char *);
	int (*calls)(char *, size_t);
	int (*live)(char *, size_t);
	int (*misuse)(char *, size_t);
	void (*clear)(void);
	void (*hold)(int);
	void (*lose)(int);
	int (*timeline)(void);
	int (*value)(int, uint64_t *);
	int (*signal)(int, uint64_t);
	int (*wait)(int, uint64_t, int);
} sim_control;

static int sim_open(sim_control *c, const char *name) {
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) return -1;
	struct { void *at; const char *symbol; } table[] = {
		{&c->fail, "dlx_gpusim_fail"}, {&c->count, "dlx_gpusim_count"}, {&c->calls, "dlx_gpusim_calls"},
		{&c->live, "dlx_gpusim_live"}, {&c->misuse, "dlx_gpusim_misuse"}, {&c->clear, "dlx_gpusim_clear_misuse"},
		{&c->hold, "dlx_gpusim_hold"}, {&c->lose, "dlx_gpusim_lose"}, {&c->timeline, "dlx_gpusim_timeline_new"},
		{&c->value, "dlx_gpusim_timeline_value"}, {&c->signal, "dlx_gpusim_timeline_signal"}, {&c->wait, "dlx_gpusim_timeline_wait"},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (!(*(void **)table[i].at = dlsym(library, table[i].symbol))) return -1;
	return 0;
}

static void sim_fail(sim_control *c, const char *call, int nth, int code) { c->fail(call, nth, code); }
static long sim_count(sim_control *c, const char *call) { return c->count(call); }
static int sim_list(sim_control *c, int which, char *out, size_t room) {
	return which == 0 ? c->calls(out, room) : which == 1 ? c->live(out, room) : c->misuse(out, room);
}
static void sim_clear(sim_control *c) { c->clear(); }
static void sim_hold(sim_control *c, int on) { c->hold(on); }
static void sim_lose(sim_control *c, int device) { c->lose(device); }
static int sim_timeline(sim_control *c) { return c->timeline(); }
static int sim_value(sim_control *c, int fd, uint64_t *value) { return c->value(fd, value); }
static int sim_signal(sim_control *c, int fd, uint64_t value) { return c->signal(fd, value); }
static int sim_wait(sim_control *c, int fd, uint64_t value, int ms) { return c->wait(fd, value, ms); }
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// Simulator is a simulated driver of this process. Its methods are safe for concurrent use.
type Simulator struct{ control C.sim_control }

// ErrNone reports that the driver in use is not the simulated one.
var ErrNone = errors.New("gpusim: DLX_CUDA_LIBRARY or DLX_HIP_LIBRARY does not name the simulated driver, or DLX_GPUSIM_AS_CARD is set")

// Open finds the simulated driver that DLX_CUDA_LIBRARY names, which the CUDA backend uses too. It fails with
// [ErrNone] if the variable names another driver, and if DLX_GPUSIM_AS_CARD is 1, so that tests do what they
// do on a GPU.
func Open() (*Simulator, error) { return open("DLX_CUDA_LIBRARY") }

// OpenHIP is Open for the library that DLX_HIP_LIBRARY names.
func OpenHIP() (*Simulator, error) { return open("DLX_HIP_LIBRARY") }

func open(variable string) (*Simulator, error) {
	if os.Getenv("DLX_GPUSIM_AS_CARD") == "1" {
		return nil, ErrNone
	}
	name := C.CString(os.Getenv(variable))
	defer C.free(unsafe.Pointer(name))
	s := new(Simulator)
	if *name == 0 || C.sim_open(&s.control, name) != 0 {
		return nil, ErrNone
	}
	return s, nil
}

// Fail makes a function fail once with a code (a CUresult, hipError_t or hiprtcResult; 0 is "unknown", 999), at its nth call from now
// on: 1 is the next call, and 0 cancels the failure. call is the function's name without a version. A code
// that ends a context ends the current one, or all contexts if none is current.
func (s *Simulator) Fail(call string, nth, code int) {
	name := C.CString(call)
	defer C.free(unsafe.Pointer(name))
	C.sim_fail(&s.control, name, C.int(nth), C.int(code))
}

// Count returns how often a function was called.
func (s *Simulator) Count(call string) int {
	name := C.CString(call)
	defer C.free(unsafe.Pointer(name))
	return int(C.sim_count(&s.control, name))
}

// text is one of the library's texts.
func (s *Simulator) text(which C.int) string {
	const room = 1 << 17
	out := (*C.char)(C.calloc(1, room))
	defer C.free(unsafe.Pointer(out))
	C.sim_list(&s.control, which, out, room)
	return C.GoString(out)
}

// Calls returns how often each function was called, by name.
func (s *Simulator) Calls() map[string]int { return numbers(s.text(0)) }

// Live returns how many objects are open, by kind: "streams", "allocations". A kind without open objects is
// missing. "host_bytes" is the size of all "host_allocations".
func (s *Simulator) Live() map[string]int { return numbers(s.text(1)) }

// numbers reads lines "name number".
func numbers(text string) map[string]int {
	m := make(map[string]int)
	for line := range strings.Lines(text) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		m[name], _ = strconv.Atoi(n) // the library writes a number
	}
	return m
}

// Misuse lists the calls that a driver need not survive.
func (s *Simulator) Misuse() []string {
	text := strings.TrimSpace(s.text(2))
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// ClearMisuse empties the list of Misuse.
func (s *Simulator) ClearMisuse() { C.sim_clear(&s.control) }

// Hold with true keeps work from running, except work that a call waits for. Hold with false lets it run.
func (s *Simulator) Hold(on bool) {
	var n C.int
	if on {
		n = 1
	}
	C.sim_hold(&s.control, n)
}

// Lose makes every context of a device fail, as after a kernel's illegal access.
func (s *Simulator) Lose(device int) { C.sim_lose(&s.control, C.int(device)) }

// Timeline is a timeline semaphore, as a Vulkan driver exports it.
type Timeline struct {
	simulator *Simulator
	FD        int // owned by the caller of NewTimeline; CUDA can import it or a duplicate
}

// NewTimeline makes a timeline with value 0.
func (s *Simulator) NewTimeline() (*Timeline, error) {
	fd := int(C.sim_timeline(&s.control))
	if fd < 0 {
		return nil, errors.New("gpusim: the timeline could not be made")
	}
	return &Timeline{s, fd}, nil
}

// Value returns the current value.
func (t *Timeline) Value() (uint64, error) {
	var v C.uint64_t
	if r := C.sim_value(&t.simulator.control, C.int(t.FD), &v); r != 0 {
		return 0, fmt.Errorf("gpusim: the value of the timeline could not be read: CUresult %d", int(r))
	}
	return uint64(v), nil
}

// Signal sets a larger value, as a Vulkan queue does.
func (t *Timeline) Signal(value uint64) error {
	if r := C.sim_signal(&t.simulator.control, C.int(t.FD), C.uint64_t(value)); r != 0 {
		return fmt.Errorf("gpusim: the timeline could not be set to %d: CUresult %d", value, int(r))
	}
	return nil
}

// Wait blocks until the value is reached, and fails if that takes longer than limit.
func (t *Timeline) Wait(value uint64, limit time.Duration) error {
	if r := C.sim_wait(&t.simulator.control, C.int(t.FD), C.uint64_t(value), C.int(limit.Milliseconds())); r != 0 {
		return fmt.Errorf("gpusim: the timeline did not reach %d: CUresult %d", value, int(r))
	}
	return nil
}
