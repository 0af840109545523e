package dl_test

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/core/coretest"
)

// A library whose constructor takes over the handlers of signals.
func TestALibraryThatTakesOverSignals(t *testing.T) {
	open(t)
	if os.Getenv(dltest.LibraryVariable) == "" {
		hijacker := dltest.Hijack(t, "hijack.so", []string{"cos"}, nil)
		coretest.Child(t, t.Name(), dltest.LibraryVariable+"="+hijacker)(t)
		return
	}
	var group sync.WaitGroup
	for range 8 { // nobody takes the library's handlers for the program's
		group.Go(func() {
			for range 50 {
				l, err := dl.Open("test", os.Getenv(dltest.LibraryVariable))
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	dltest.WantPanic(t, "a library was opened that handles signals")
}

func TestWhatOSSignalDoesInACallStays(t *testing.T) {
	open(t)
	putBack := dl.KeepHandlers()
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	putBack()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil { // which ends the process unless it is ignored
		t.Fatal(err)
	}
	dl.KeepHandlers()()
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("the signal is not ignored any more")
	}
}
