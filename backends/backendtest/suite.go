package backendtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Case is one rule of the suite and the check that a device keeps it.
type Case struct {
	// Name is unique, "theme/what": the name of the subtest.
	Name string
	// Rule is what is checked, as text that begins with its source. It is printed when the check fails.
	Rule string
	// Needs are the capabilities without which the case is skipped.
	Needs core.Capabilities

	run func(*env)
}

// Cases lists every case in the order in which [Run] takes them.
func Cases() []Case {
	return slices.Concat(
		deviceCases, allocCases, poolCases, streamCases, contextCases,
		layoutCases, subByteCases, copyErrorCases,
		orderCases, lifetimeCases,
		pointerCases, memoryCases, semaphoreCases, peerCases, dlpackCases,
		hammerCases,
	)
}

// Run checks a device against every case, each as a subtest of t. Each case
// opens a device of its own by open and closes it, so open must give a fresh one;
// it ends the test where it cannot. Since live objects are counted, no other test
// may run in parallel.
func Run(t *testing.T, open func(testing.TB) core.Device, opts ...Option) {
	cfg := newConfig(opts)
	t.Logf("random layouts are those of %s", seedText(cfg.seed))
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.check(t, open, cfg) })
	}
}

// Option changes how [Run] works.
type Option func(*config)

type config struct {
	openPeer func(testing.TB) core.Device
	seed     uint64
	timeout  time.Duration
}

func newConfig(opts []Option) config {
	cfg := config{seed: rand.Uint64(), timeout: 30 * time.Second}
	for _, o := range opts {
		o(&cfg)
	}
	return cfg
}

// WithPeer tells how to open a second device that the first can copy to and from
// directly. A device that declares core.CapPeer needs it; the suite closes the peer.
func WithPeer(open func(testing.TB) core.Device) Option {
	return func(c *config) { c.openPeer = open }
}

// WithSeed makes the random layouts those of an earlier run. Without it every run has others.
func WithSeed(seed uint64) Option { return func(c *config) { c.seed = seed } }

// WithTimeout says how long a case may wait for one thing before it fails; 30 seconds by default.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// check runs the case on a device of its own.
func (c Case) check(tb testing.TB, open func(testing.TB) core.Device, cfg config) {
	tb.Helper()
	tb.Cleanup(func() { // the first registered is the last to run
		if tb.Failed() {
			tb.Logf("the rule: %s", c.Rule)
		}
	})
	before := core.Live()
	tb.Cleanup(func() {
		if !tb.Failed() {
			checkLive(tb, before, cfg.timeout)
		}
	})
	e := &env{TB: tb, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 0))}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.timeout)
	tb.Cleanup(cancel)
	e.ctx = ctx
	e.dev = e.open(open)
	e.props = e.dev.Properties()
	if missing := c.Needs &^ e.props.Capabilities; missing != 0 {
		tb.Skipf("skipped: needs capability %v, which %v does not declare", missing, e.props.ID)
	}
	c.run(e)
}

// checkLive proves that a case and its device left nothing open.
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
