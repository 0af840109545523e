//go:build cgo && !windows

package dlpack

// #include "node.h"
import "C"

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

const (
	pollEvery = 500 * time.Microsecond // while nodes come back
	quietFor  = 20                     // polls without a node, until the drainer sleeps
	patience  = time.Second            // of Flush, with releases that run elsewhere
)

// armed is dlx_armed.
var armed = (*atomic.Uint32)(unsafe.Pointer(&C.dlx_armed))

// sweeping is how many goroutines are giving shares back.
var sweeping atomic.Int32

// The drainer gives back the shares of nodes that came back, when nobody exports.
var drainer struct {
	mu   sync.Mutex
	pipe [2]*os.File // read and write end, kept for ever; nil until started
}

// startDrainer starts it once.
func startDrainer() error {
	drainer.mu.Lock()
	defer drainer.mu.Unlock()
	if drainer.pipe[0] != nil {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fail(core.ErrOutOfMemory, "Export", "no pipe to hear of deleted tensors by: %v", err)
	}
	drainer.pipe = [2]*os.File{r, w}
	C.dlx_set_pipe(C.int(w.Fd()))
	go drain(r)
	return nil
}

// drain sleeps while nothing comes back. Once woken it looks again and again for
// a while, so that a burst of deletions costs one system call and not one each.
func drain(pipe *os.File) {
	var one [1]byte
	for {
		armed.Store(1)
		if sweep() {
			C.dlx_wake() // what came before armed was set wakes nobody
		}
		if _, err := pipe.Read(one[:]); err != nil {
			time.Sleep(pollEvery) // somebody closed our pipe: all that is left is to poll
		}
		for quiet := 0; quiet < quietFor; quiet++ {
			if sweep() {
				quiet = 0
			}
			time.Sleep(pollEvery)
		}
	}
}

// sweep gives back the shares of all nodes that came back, and reports whether
// there were any.
func sweep() (found bool) {
	sweeping.Add(1)
	defer sweeping.Add(-1)
	for i := range shards {
		h := &shards[i]
		h.mu.Lock()
		came := h.collect()
		last := h.last
		h.last = nil
		h.mu.Unlock()
		for last != nil {
			s := last
			last = s.next
			s.buffer.Release() // can call anything: no lock is held
			s.buffer = nil
			h.mu.Lock()
			h.put(s)
			h.mu.Unlock()
			came = true
		}
		found = found || came
	}
	return found
}

// Flush gives back the share of every tensor whose deleter was called before, and of
// those whose deleters that calls in turn, as where a tensor was exported, imported
// and exported again. It also waits for shares that are being given back elsewhere, for
// at most a second: an Owner whose Free calls Flush would otherwise wait for itself.
func Flush() {
	for deadline := time.Now().Add(patience); ; {
		alone := sweeping.Load() == 0
		switch found := sweep(); {
		case alone && !found || time.Now().After(deadline):
			return
		case !found:
			time.Sleep(pollEvery / 10)
		}
	}
}

func init() {
	core.CountLive("dlpack.Export", func() int64 {
		Flush()
		var n int64
		for i := range shards {
			n += shards[i].out()
		}
		return n
	})
}
