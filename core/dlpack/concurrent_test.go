//go:build cgo && !windows

package dlpack_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
)

const (
	hammerThreads = 8
	hammerCycles  = 100_000
)

// hammer runs cycles on threads of the system, each with a goroutine bound to it.
func hammer(cycle func(thread, i int)) {
	var threads sync.WaitGroup
	for thread := range hammerThreads {
		threads.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := range hammerCycles / hammerThreads {
				cycle(thread, i)
			}
		})
	}
	threads.Wait()
}

func TestHammerExportAndImportFromManyThreads(t *testing.T) {
	coretest.CheckNoLeaks(t)
	tensor := iota32(t, 2, 3, 4)
	hammer(func(thread, i int) {
		m, err := dlpack.Export(tensor)
		if err != nil {
			t.Error(err)
			return
		}
		back, err := dlpack.Import(m, dlpack.ImportOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		if v, err := core.Values[float32](back); err != nil || v[23] != 23 {
			t.Errorf("thread %d, cycle %d: %v, %v", thread, i, v, err)
		}
		if err := back.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestHammerForeignThreadsDelete(t *testing.T) {
	coretest.CheckNoLeaks(t)
	shared := iota32(t, 2, 3, 4)
	reaper := hostile.NewReaper(hammerThreads)
	hammer(func(thread, i int) {
		tensor := shared
		if i%4 == 0 { // the consumer gets the last share
			own, err := core.FromSlice([]float32{1, 2, 3})
			if err != nil {
				t.Error(err)
				return
			}
			defer closeTensor(t, own)
			tensor = own
		}
		m, err := dlpack.Export(tensor)
		if err != nil {
			t.Error(err)
			return
		}
		reaper.Give(m)
	})
	reaper.Close()
}

func TestHammerFlushBesideExports(t *testing.T) {
	coretest.CheckNoLeaks(t)
	tensor := iota32(t, 2)
	stop := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				dlpack.Flush()
			}
		}
	})
	hammer(func(int, int) {
		m, err := dlpack.Export(tensor)
		if err != nil {
			t.Error(err)
			return
		}
		dlpack.Delete(m)
	})
	close(stop)
	flusher.Wait()
}

func TestForeignDeleteFreesWithoutAnotherCallOfGo(t *testing.T) {
	for _, pause := range []time.Duration{0, 50 * time.Millisecond} { // the drainer is awake, or asleep
		freed := make(chan struct{})
		tensor := must[*core.Tensor](t)(core.Wrap(core.Memory{
			ID: core.CPU, Handle: memory(), Size: 4, Owner: core.FreeFunc(func() { close(freed) }),
		}, core.Spec{DType: core.TypeFloat32}))
		m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
		closeTensor(t, tensor)
		time.Sleep(pause)
		start := time.Now()
		if !hostile.DeleteOnThread(m) {
			t.Error("the deleter changed errno")
		}
		select {
		case <-freed:
			t.Logf("after a pause of %v the memory was freed within %v", pause, time.Since(start))
		case <-time.After(10 * time.Second):
			t.Fatal("the memory was not freed")
		}
	}
}

func TestLegacyStructsAreDeletedOnForeignThreads(t *testing.T) {
	tensor := iota32(t, 3)
	for range 100 {
		if !hostile.DeleteLegacyOnThread(must[*dlpack.ManagedTensor](t)(dlpack.ExportLegacy(tensor))) {
			t.Fatal("the deleter changed errno")
		}
	}
	wantLive(t, "dlpack.Export", 0)
}

// Each share that is given back calls the deleter of the next.
func TestFlushGivesBackAWholeChain(t *testing.T) {
	freed := false
	m := core.Memory{ID: core.CPU, Handle: 4096, Size: 4, Owner: core.FreeFunc(func() { freed = true })}
	tensor := must[*core.Tensor](t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{4}}))
	for range 5 {
		managed := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
		_ = tensor.Close()
		tensor = must[*core.Tensor](t)(dlpack.Import(managed, dlpack.ImportOptions{}))
	}
	_ = tensor.Close()
	dlpack.Flush()
	if !freed {
		t.Error("after Flush some export holds the memory")
	}
}

// The Flush of another goroutine, or the drainer, may be the one that releases the memory.
func TestFlushWaitsForOthers(t *testing.T) {
	coretest.CheckNoLeaks(t)
	hammer(func(int, int) {
		var freed atomic.Bool
		tensor, err := core.Wrap(core.Memory{
			ID: core.CPU, Handle: memory(), Size: 4, Owner: core.FreeFunc(func() { freed.Store(true) }),
		}, core.Spec{DType: core.TypeFloat32})
		if err != nil {
			t.Error(err)
			return
		}
		m, err := dlpack.Export(tensor)
		if err != nil {
			t.Error(err)
			return
		}
		closeTensor(t, tensor)
		dlpack.Delete(m)
		start := time.Now()
		dlpack.Flush()
		if took := time.Since(start); !freed.Load() && took < time.Second { // after which Flush gives up
			t.Errorf("after %v Flush returned while the memory was being released", took)
		}
	})
}

func TestFlushInsideFreeDoesNotHang(t *testing.T) {
	done := make(chan struct{})
	tensor := must[*core.Tensor](t)(core.Wrap(core.Memory{
		ID: core.CPU, Handle: memory(), Size: 4,
		Owner: core.FreeFunc(func() {
			dlpack.Flush()
			close(done)
		}),
	}, core.Spec{DType: core.TypeFloat32}))
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	closeTensor(t, tensor)
	dlpack.Delete(m)
	dlpack.Flush()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Flush waits for itself")
	}
}
