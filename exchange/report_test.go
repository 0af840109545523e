package exchange_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// asked are the options that a move may come with.
var asked = func() (all []exchange.Options) {
	for _, c := range []exchange.Copy{exchange.IfNeeded, exchange.Never, exchange.Always} {
		for _, only := range []exchange.Mechanism{0, exchange.Alias, exchange.Map, exchange.Peer, exchange.Direct, exchange.Staged} {
			all = append(all, exchange.Options{Copy: c, Only: only})
		}
	}
	return all
}()

// A report is about its own call, whatever was moved before and by which way: it is
// that of a tensor which nobody has moved yet, and what it says has happened.
func TestReportsAreThoseOfTheirCall(t *testing.T) {
	coretest.CheckNoLeaks(t)
	visible := core.AllocOptions{HostVisible: true}
	for _, c := range []struct {
		name     string
		from, to core.Capabilities
		alloc    core.AllocOptions
	}{
		{"nothing is shared", 0, 0, core.AllocOptions{}},
		{"peers", peer, peer, core.AllocOptions{}},
		{"imported", exports, imports, core.AllocOptions{Export: handleType}},
		{"imported, between peers that see all", exports | hostView | peer, imports | mapHost | peer, core.AllocOptions{Export: handleType}},
		{"viewed and mapped", hostView, mapHost, visible},
		{"an import fails, and the view is mapped", exports | hostView, imports | mapHost, visible},
		{"viewed, and copied from there", hostView, 0, visible},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newFakes(t, c.from, c.to)
			h := host(t)
			reports(t, a, b, c.alloc, asked, every)
			reports(t, a, a, c.alloc, asked, every)
			reports(t, a, h, c.alloc, asked, every)
			reports(t, h, b, core.AllocOptions{}, asked, every)
		})
	}
}

// A quick test has every sixth pair of devices and memory.
func TestReportsOfDevicesAreThoseOfTheirCall(t *testing.T) {
	coretest.CheckNoLeaks(t)
	some := []exchange.Options{
		{}, {Copy: exchange.Never}, {Copy: exchange.Always},
		{Only: exchange.Map}, {Only: exchange.Direct}, {Only: exchange.Staged}, {Copy: exchange.Never, Only: exchange.Map},
	}
	devices := openAll(t, 1)
	turn := 0
	for _, from := range devices {
		for _, to := range devices {
			for _, s := range sources(from) {
				turn++
				if coretest.Quick() && turn%6 != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%v to %v, %s", from.ID(), to.ID(), s.name), func(t *testing.T) {
					reports(t, from, to, s.alloc, some, turn)
				})
			}
		}
	}
}

// every is the turn that has every pair of options.
const every = -1

// reports moves a tensor with pairs of options, one after the other: each option after the one before it in the list,
// and, but for the short test, after another one, which depends on turn, so that each pair has its turn.
func reports(t *testing.T, from, to core.Device, alloc core.AllocOptions, options []exchange.Options, turn int) {
	t.Helper()
	fresh := make([]exchange.Report, len(options))
	for i, o := range options {
		src := numbered(t, from, alloc, 1024)
		fresh[i] = reported(t, src, from, to, o, nil)
		_ = src.Close()
	}
	for i := range options {
		for j, o := range options {
			distance := (j - i + len(options)) % len(options)
			if distance != 1 && (testing.Short() || turn != every && distance != turn%len(options)) {
				continue
			}
			src := numbered(t, from, alloc, 1024)
			reported(t, src, from, to, options[i], nil)
			reported(t, src, from, to, o, &fresh[j])
			_ = src.Close()
			if t.Failed() {
				t.Fatalf("%v to %v, with %+v: %+v after %+v", from.ID(), to.ID(), alloc, o, options[i])
			}
		}
	}
}

// reported moves src, and proves that the report tells what happened, and the same as want.
func reported(t *testing.T, src *core.Tensor, from, to core.Device, o exchange.Options, want *exchange.Report) exchange.Report {
	t.Helper()
	before := liveOpened()
	got, report, err := exchange.To(t.Context(), src, to, o)
	refused := report.Refused()
	var none *exchange.NoWayError
	switch {
	case errors.As(err, &none):
		if !slices.Equal(refused, none.Refused()) {
			t.Errorf("the report refuses %+v, the error %+v", refused, none.Refused())
		}
	case err != nil:
		t.Fatal(err)
	default:
		defer got.Close()
		happened(t, src, got, from, to, o, report)
		if opened := liveOpened() > before; opened != report.Opened {
			t.Errorf("the report says that something was opened: %v; it was: %v", report.Opened, opened)
		}
	}
	for _, f := range refused {
		if f.Reason == "" ||
			strings.Contains(f.Reason, "Options.Only") && !strings.HasSuffix(f.Reason, fmt.Sprintf("asks for %v", o.Only)) ||
			strings.Contains(f.Reason, "Options.Copy") && o.Copy != exchange.Never {
			t.Errorf("with %+v was refused: %+v", o, f)
		}
	}
	if want != nil && (report.Mechanism != want.Mechanism || report.BytesCopied != want.BytesCopied || report.From != want.From ||
		!slices.Equal(report.Steps(), want.Steps()) || !slices.EqualFunc(refused, want.Refused(), sameWay)) {
		t.Errorf("the report is\n%+v\nand that of a tensor which was not moved before\n%+v", report, *want)
	}
	return report
}

// sameWay compares refusals, whose reasons may name addresses.
func sameWay(a, b exchange.Refusal) bool { return a.What == b.What && a.Mechanism == b.Mechanism }

// happened proves what a report says of a move that went well.
func happened(t *testing.T, src, got *core.Tensor, from, to core.Device, o exchange.Options, r exchange.Report) {
	t.Helper()
	var bytes int64
	for _, s := range r.Steps() {
		bytes += s.Bytes
	}
	if want := r.Mechanism.Copies() * src.NumBytes(); r.BytesCopied != want || bytes != want {
		t.Errorf("%v copied %d bytes by the report, %d by its steps; want %d", r.Mechanism, r.BytesCopied, bytes, want)
	}
	if o.Only != 0 && r.Mechanism != o.Only {
		t.Errorf("%v with Only %v", r.Mechanism, o.Only)
	}
	values := read(t, from, src)
	if have := read(t, to, got); !slices.Equal(have, values) {
		t.Errorf("%v: other elements", r.Mechanism)
	}
	values[7]++
	write(t, from, src, values)
	shares := slices.Equal(read(t, to, got), values)
	if shares != (r.Mechanism.Copies() == 0) || shares && o.Copy == exchange.Always || !shares && o.Copy == exchange.Never {
		t.Errorf("%+v: the memory is shared: %v; %+v", o, shares, r)
	}
	if len(r.Steps()) == 0 {
		t.Errorf("%v without a step", r.Mechanism)
	}
}

// opaqueStream is a stream that cannot run functions of the host.
type opaqueStream struct{ core.Stream }

// A report says who waits for the data, and nothing if nobody has to.
func TestAReportSaysWhoWaits(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name      string
		hostWaits bool
		stream    func(core.Stream) core.Stream
		ready     bool
		want      string
	}{
		{"a device", false, func(s core.Stream) core.Stream { return opaqueStream{s} }, false, "  wait: stream_wait, by the stream of ext_dev:0 on the device\n"},
		{"a goroutine", false, func(s core.Stream) core.Stream { return s }, false, "  wait: stream_wait, by a goroutine of the stream of ext_dev:0\n"},
		{"the caller", true, func(s core.Stream) core.Stream { return s }, false, "  wait: host_wait, by the caller\n"},
		{"nobody", false, func(s core.Stream) core.Stream { return s }, true, ""},
		{"nobody yet", false, func(core.Stream) core.Stream { return nil }, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, d := slowDevice(t, coretest.Options{HostWaits: c.hostWaits})
			writing, reading := newStream(t, d), c.stream(newStream(t, d))
			x := coretest.Row(t, d, 8, core.AllocOptions{})
			if err := d.Copy(ctx, writing, x, slice(t, make([]uint8, 8))); err != nil {
				t.Fatal(err)
			}
			if c.ready {
				if err := x.WaitReady(ctx); err != nil {
					t.Fatal(err)
				}
			}
			want := "ext_dev:0 -> ext_dev:0: alias, 0 bytes copied\n  1. use the memory as it is: it belongs to the device already\n" + c.want
			_, report := to(t, x, d, exchange.Options{Stream: reading})
			if c.hostWaits { // the first move has waited
				if err := d.Copy(ctx, writing, x, slice(t, make([]uint8, 8))); err != nil {
					t.Fatal(err)
				}
			}
			results, all, err := exchange.ToAll(ctx, []*core.Tensor{x}, d, exchange.Options{Stream: reading})
			if err != nil {
				t.Fatal(err)
			}
			results[0].Close()
			for _, r := range []exchange.Report{report, all[0]} {
				if got := r.String(); got != want {
					t.Errorf("the report prints as\n%swant\n%s", got, want)
				}
			}
			if err := errors.Join(x.WaitReady(ctx), writing.Synchronize(ctx)); err != nil {
				t.Fatal(err)
			}
		})
	}
	r := exchange.Report{From: core.CPU, To: core.DeviceID{Type: core.DeviceVulkan}, Wait: stream.SemaphoreWait}
	if want := "cpu -> vulkan:0: none, 0 bytes copied\n  wait: semaphore_wait, by the stream of vulkan:0 on the device\n"; r.String() != want {
		t.Errorf("the report prints as\n%swant\n%s", r, want)
	}
}
