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
	"github.com/dlx-go/dlx/internal/live"
)

const (
	pollEvery    = 500 * time.Microsecond // time between polls while nodes are returned
	quietFor     = 20                     // polls without a returned node after which the drainer sleeps
	flushTimeout = time.Second            // how long Flush waits for other goroutines
)

// armed is the Go view of dlx_armed.
var armed = (*atomic.Uint32)(unsafe.Pointer(&C.dlx_armed))

// A sweep adds one to begun, with the shard locked, before it releases the last references
// that it found there, and one to ended after that.
var begun, ended atomic.Uint64

// drainer is the goroutine that releases the references of returned nodes. An exporter that
// needs nodes does so too, see shard.collect.
var drainer struct {
	mu   sync.Mutex
	pipe [2]*os.File // read and write end, never closed; nil until started
}

// startDrainer starts the drainer, once.
func startDrainer() error {
	drainer.mu.Lock()
	defer drainer.mu.Unlock()
	if drainer.pipe[0] != nil {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fail(core.ErrOutOfMemory, "Export", "the pipe that reports deleted tensors cannot be made: %v", err)
	}
	drainer.pipe = [2]*os.File{r, w}
	C.dlx_set_pipe(C.int(w.Fd()))
	go drain(r)
	return nil
}

// drain sleeps until a deleter writes to the pipe. It then polls for a while, so that many
// deletions cost one system call together and not one each.
func drain(pipe *os.File) {
	var one [1]byte
	for {
		armed.Store(1)
		if sweep() {
			C.dlx_wake() // a node that was returned before armed was set did not wake us
		}
		if _, err := pipe.Read(one[:]); err != nil {
			time.Sleep(pollEvery) // the program has closed the descriptor of the pipe: poll instead
		}
		for quiet := 0; quiet < quietFor; quiet++ {
			if sweep() {
				quiet = 0
			}
			time.Sleep(pollEvery)
		}
	}
}

// sweep releases the references of all returned nodes, and reports whether there were any.
func sweep() (found bool) {
	for i := range shards {
		h := &shards[i]
		h.mu.Lock()
		if h.collect() {
			found = true
		}
		last := h.last
		h.last = nil
		if last != nil {
			begun.Add(1)
		}
		h.mu.Unlock()
		if last == nil {
			continue
		}
		found = true
		for last != nil {
			s := last
			last = s.next
			s.last.Release() // may call an Owner, which can do anything: hold no lock
			s.last = nil
			h.mu.Lock()
			h.tail.Store(h.put(s, h.tail.Load()))
			h.mu.Unlock()
		}
		ended.Add(1)
	}
	return found
}

// Flush releases the references of all exported structs whose deleter was called before
// Flush. Releasing one may call the deleter of another, for example if a tensor was
// exported, imported and exported again; Flush releases that one too. Flush also waits for
// releases that other goroutines have begun. It waits for at most a second, because an Owner
// whose Free calls Flush would otherwise wait for itself, and because the deleter of another
// library may never return.
func Flush() {
	for deadline := time.Now().Add(flushTimeout); ; {
		before := ended.Load() // before begun: then they are equal only if nothing is being released
		idle := begun.Load() == before
		found, last := collect()
		if last { // an Owner may not return
			swept := make(chan struct{})
			go func() {
				sweep()
				close(swept)
			}()
			select {
			case <-swept:
			case <-time.After(time.Until(deadline)):
			}
		}
		if idle && begun.Load() == before || time.Now().After(deadline) {
			return
		}
		if !found && !last {
			time.Sleep(pollEvery / 10)
		}
	}
}

// collect makes available what it can of the returned nodes, without calling an Owner. found reports whether there were any,
// and last whether some have the last references to their buffers, which sweep releases.
func collect() (found, last bool) {
	for i := range shards {
		h := &shards[i]
		h.mu.Lock()
		found = h.collect() || found
		last = last || h.last != nil
		h.mu.Unlock()
	}
	return found, last
}

func init() {
	live.Count("dlpack.Export", func() int64 {
		Flush()
		var n int64
		for i := range shards {
			n += shards[i].out()
		}
		return n
	})
}
