//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

extern void dlxCUDAHostTurn(uintptr_t);

static void dlx_host_turn(void *n) { dlxCUDAHostTurn((uintptr_t)n); }

static CUresult dlx_launch_host(uintptr_t context, uintptr_t stream, uintptr_t turn) {
	DLX_RELAXED(context, cuLaunchHostFunc((CUstream)stream, dlx_host_turn, (void *)turn));
}
*/
import "C"

import (
	"maps"
	"sync"

	"github.com/dlx-go/dlx/core"
)

var liveTurns = core.NewLiveCounter("cuda.HostTurn")

// turns is the work of the host that did not begin, by the number that the driver hands back.
var turns struct {
	mu   sync.Mutex
	last uintptr
	all  map[uintptr]turn

	running map[Context]int // that have begun and not ended
}

type turn struct {
	context Context
	work    func()
}

// HostTurn enqueues work that the host does when all before it is done, and that all
// behind it waits for. It runs on a thread of the driver's, and calls nothing of CUDA
// (cuLaunchHostFunc). In a context that has failed it never runs: see [Context.ForgetTurns].
func (c Context) HostTurn(stream uintptr, work func()) Status {
	turns.mu.Lock()
	if turns.all == nil {
		turns.all = make(map[uintptr]turn)
	}
	turns.last++
	n := turns.last
	turns.all[n] = turn{c, work}
	turns.mu.Unlock()
	liveTurns.Add(1)
	s := Status(C.dlx_launch_host(C.uintptr_t(c), C.uintptr_t(stream), C.uintptr_t(n)))
	if s != Success {
		if t, ok := takeTurn(n); ok {
			t.end()
		}
	}
	return s
}

//export dlxCUDAHostTurn
func dlxCUDAHostTurn(n C.uintptr_t) {
	if t, ok := takeTurn(uintptr(n)); ok {
		defer t.end()
		t.work()
	}
}

// takeTurn is the work of a number, once, which runs until its end.
func takeTurn(n uintptr) (t turn, ok bool) {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if t, ok = turns.all[n]; ok {
		delete(turns.all, n)
		liveTurns.Add(-1)
		if turns.running == nil {
			turns.running = make(map[Context]int)
		}
		turns.running[t.context]++
	}
	return t, ok
}

func (t turn) end() {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if turns.running[t.context]--; turns.running[t.context] == 0 {
		delete(turns.running, t.context)
	}
}

// RunsTurn reports whether the host is at work in a stream of the context: it uses its
// memory even if the context has failed meanwhile.
func (c Context) RunsTurn() bool {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	return turns.running[c] > 0
}

// ForgetTurns drops what never runs, since the context has failed.
func (c Context) ForgetTurns() {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	maps.DeleteFunc(turns.all, func(_ uintptr, t turn) bool {
		if t.context == c {
			liveTurns.Add(-1)
		}
		return t.context == c
	})
}
