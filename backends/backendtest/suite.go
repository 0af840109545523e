package backendtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Case is a rule of the suite, and the check that a device keeps it.
type Case struct {
	// Name is unique, "theme/what". It is the name of the subtest.
	Name string
	// Rule is what is checked, as text that begins with its source. It is printed when the check fails.
	Rule string
	// Needs are the capabilities without which the case is skipped.
	Needs core.Capabilities
	// Lacks are the capabilities with which the case is skipped: the case checks how a device refuses what it
	// cannot do.
	Lacks core.Capabilities

	run func(*env)
}

// Cases lists all cases in the order in which [Run] runs them.
func Cases() []Case {
	return slices.Concat(
		deviceCases, allocCases, poolCases, streamCases, importStreamCases, contextCases,
		layoutCases, subByteCases, copyErrorCases,
		orderCases, crossingCases, lifetimeCases,
		pointerCases, mapCases, viewCases, memoryCases, semaphoreCases, ipcEventCases, peerCases, batchCases, convertCases, clockCases, fileCases, dlpackCases,
		neighbourCases, hammerCases,
	)
}

// Run checks a device against every case, each as a subtest of t. For each case it calls open and closes the
// device at the end, so open must return a newly opened device; if it cannot, it ends the test. No other test
// may run in parallel, since live objects are counted.
func Run(t *testing.T, open func(testing.TB) core.Device, o Options) {
	cfg := newConfig(o)
	t.Logf("random layouts are those of %s", seedText(cfg.Seed))
	for i, c := range Cases() {
		if coretest.Quick() && i%cfg.Variants != cfg.Variant {
			continue
		}
		t.Run(c.Name, func(t *testing.T) { c.check(t, open, cfg) })
	}
}

// Options are the options of [Run] and [Programs]. The zero value is the default.
type Options struct {
	// Peer opens a second device, to and from which the first can copy directly. A device that declares core.CapPeer
	// needs it. The suite closes the peer.
	Peer func(testing.TB) core.Device

	// Seed, if not 0, is the seed of the random layouts, to repeat an earlier run. Without it, every run has other
	// layouts.
	Seed uint64

	// Variant says which of so many Variants of a device, counted from 0, the device is, such as drivers that differ. Quick
	// tests ([coretest.Quick]) run each case on one of them only, and skip it if that one lacks what the case needs. So also
	// run the suite once without Variants, on the device that can do most: all cases run there.
	Variant, Variants int

	// Timeout is how long a case may take, and how long it waits for a result; 0 is three minutes, so that cases also
	// pass on a busy machine.
	Timeout time.Duration

	// Pointer makes memory as another library would, for core.PointerImporter. It returns the address of at least size
	// bytes, or their handle if the device has handles, and frees them by tb.Cleanup. Without it the suite imports
	// memory of the device itself.
	Pointer func(tb testing.TB, d core.Device, size int64) uintptr

	// Hold holds a stream back: work that is enqueued later does not run until release is called. It uses the device's
	// own API for this, such as a user event, or a semaphore that the host signals. release may be called twice.
	//
	// Without it, the cases on order may miss errors of two kinds of devices: devices whose streams can neither
	// wait for events of the host nor signal each other, and devices whose streams share a queue, so that a
	// stream that waits for a semaphore may block the stream that signals it.
	Hold func(tb testing.TB, s core.Stream) (release func())
}

// config is options with what they leave open.
type config struct {
	Options
	grace time.Duration // how long a case waits for a wrong effect before it checks
}

func newConfig(o Options) config {
	if text := os.Getenv(variantVariable); text != "" && o.Variants == 0 {
		if _, err := fmt.Sscanf(text, "%d/%d", &o.Variant, &o.Variants); err != nil || o.Variants < 1 || o.Variant < 0 {
			panic(variantVariable + " is not I/N: " + text)
		}
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	o.Timeout, o.Variants = cmp.Or(o.Timeout, 3*time.Minute), max(o.Variants, 1)
	o.Variant %= o.Variants
	return config{o, 20 * time.Millisecond}
}

// variantVariable is the environment variable of [VariantOfProcess].
const variantVariable = "DLX_BACKENDTEST_VARIANT"

// VariantOfProcess returns an environment variable, "NAME=value", that has in a process that calls [Run] the effect of the
// options Variant i and Variants n.
func VariantOfProcess(i, n int) string { return fmt.Sprintf("%s=%d/%d", variantVariable, i, n) }

// check runs the case on a device of its own.
func (c Case) check(tb testing.TB, open func(testing.TB) core.Device, cfg config) {
	tb.Helper()
	tb.Cleanup(func() { // the first registered is the last to run
		if tb.Failed() {
			tb.Logf("rule: %s", c.Rule)
		}
	})
	before := core.Live()
	tb.Cleanup(func() {
		if !tb.Failed() {
			checkLive(tb, before, cfg.Timeout)
		}
	})
	e := &env{TB: tb, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0))}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Timeout)
	tb.Cleanup(cancel)
	e.ctx = ctx
	e.dev = e.open(open)
	e.props = e.dev.Properties()
	if missing := c.Needs &^ e.props.Capabilities; missing != 0 {
		tb.Skipf("skipped: needs capability %v, which %v does not declare", missing, e.props.ID)
	}
	if has := c.Lacks & e.props.Capabilities; has != 0 {
		tb.Skipf("skipped: is for devices without capability %v, which %v declares", has, e.props.ID)
	}
	c.run(e)
}

// checkLive checks that a case and its device left nothing open.
func checkLive(tb testing.TB, before map[string]int64, timeout time.Duration) {
	tb.Helper()
	left := func() map[string]int64 {
		more := core.Live()
		for name, n := range more {
			if n -= before[name]; n > 0 {
				more[name] = n
			} else {
				delete(more, name)
			}
		}
		return more
	}
	if !eventually(timeout, func() bool { return len(left()) == 0 }) {
		tb.Errorf("core.Live: left open after everything was closed: %v", left())
	}
}

// eventually polls until cond holds and reports false after the timeout.
func eventually(timeout time.Duration, cond func() bool) bool {
	for end := time.Now().Add(timeout); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
