//go:build cuda && linux && cgo

package cuda

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

func first(tb testing.TB) core.Device { return open(tb) }

// options returns the options for the suite. Only the simulator has a semaphore that the host can signal. On a card
// the suite keeps streams busy instead.
func options() backendtest.Options {
	o := backendtest.Options{Peer: second}
	if _, err := gpusim.Open(); err == nil {
		o.Hold = hold
	}
	return o
}

// hold makes a stream wait until release is called.
func hold(tb testing.TB, s core.Stream) (release func()) {
	own, imported := newTimeline(tb, s.Device())
	if err := imported.WaitOn(s, 1); err != nil {
		tb.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := own.Timeline.Signal(1); err != nil {
			tb.Error(err)
		}
	})
}

func TestConformance(t *testing.T) {
	if os.Getenv(integratedVariable) == "1" {
		d := open(t)
		if p := d.Properties(); !p.Capabilities.Has(core.CapMapHost) {
			t.Errorf("%+v is not integrated", p)
		}
		_ = d.Close()
	}
	backendtest.Run(t, first, options())
}

// integratedVariable makes the devices of the simulator integrated: they share the host's memory.
const integratedVariable = "DLX_GPUSIM_INTEGRATED"

// drainVariable makes calls of the simulator that free memory wait for all work, and all other calls wait for them.
const drainVariable = "DLX_GPUSIM_DRAIN_LOCK"

// readOnlyVariable makes them register memory that the host cannot write.
const readOnlyVariable = "DLX_GPUSIM_READ_ONLY_HOST"

// batchVariable says which cuMemcpyBatchAsync the simulator has: 0 stands for drivers before 570, 12 for those before 580.
const batchVariable = "DLX_GPUSIM_BATCH"

// The documentation allows drivers to differ: there is no call for many copies, or an older one; devices share the host's memory; devices cannot access each other;
// streams share a queue; loading kernels waits for all work; memory is freed when no work is left, and no other call is
// served before; handles and addresses are reused at once; the host must not use managed memory while the device works.
func TestConformanceOfDriversThatDiffer(t *testing.T) {
	simulator(t)
	variants := [][]string{
		{integratedVariable + "=1", readOnlyVariable + "=1"},
		{integratedVariable + "=1"}, {lazyVariable + "=1"}, {drainVariable + "=1"},
		{dmaBufVariable + "=0"}, {peersVariable + "=0"}, {batchVariable + "=0"}, {batchVariable + "=12"},
		{"DLX_GPUSIM_ONE_QUEUE=1"}, {"DLX_GPUSIM_REUSE=1"}, {"DLX_GPUSIM_CONCURRENT=0"},
	}
	if testing.Short() { // each process has a driver that differs in ways that have nothing to do with each other
		variants = [][]string{
			{integratedVariable + "=1", readOnlyVariable + "=1", batchVariable + "=0"},
			{integratedVariable + "=1", lazyVariable + "=1"},
			{dmaBufVariable + "=0", drainVariable + "=1", batchVariable + "=12"},
			{peersVariable + "=0", "DLX_GPUSIM_ONE_QUEUE=1"},
			{"DLX_GPUSIM_REUSE=1", "DLX_GPUSIM_CONCURRENT=0"},
		}
	}
	processes, files := make(map[string]func(*testing.T)), fakeForFiles(t)
	for i, v := range variants { // all of them read files
		variant := backendtest.VariantOfProcess(i, len(variants))
		processes[strings.Join(v, ",")] = coretest.Child(t, "TestConformance", slices.Concat(v, files, []string{variant})...)
	}
	for name, wait := range processes {
		t.Run(name, wait)
	}
}

// programsVariable makes the test binary run its share of the random programs.
const programsVariable = "DLX_CUDA_TEST_PROGRAMS"

// Several processes run at once, since each mostly waits for the simulator.
func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	n, processes := 10_000, 4
	if testing.Short() || coretest.Sanitized {
		n = 500
	}
	if os.Getenv(programsVariable) == "1" {
		backendtest.Programs(t, first, n/processes, options())
		return
	}
	for range processes {
		defer coretest.Child(t, t.Name(), programsVariable+"=1")(t)
	}
}

func TestCloseEndsWhileOthersOpen(t *testing.T) {
	backendtest.ClosesUnderLoad(t, func(tb testing.TB) core.Device { return open(tb) })
}
