package exchange_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

const (
	mapHost  = core.CapMapHost
	hostView = core.CapHostView
	exports  = core.CapExportMemory
	imports  = core.CapImportMemory
	peer     = core.CapPeer
)

// way is what a move between two devices is expected to do.
type way struct {
	mechanism exchange.Mechanism
	copies    int64
	step      string // what the report's steps must contain
	refused   string // what the report's refusals must contain
}

func check(t *testing.T, r exchange.Report, bytes int64, want way) {
	t.Helper()
	if r.Mechanism != want.mechanism || r.BytesCopied != want.copies*bytes {
		t.Errorf("the mechanism was %v with %d bytes copied, want %v with %d; refused: %v", r.Mechanism, r.BytesCopied, want.mechanism, want.copies*bytes, r.Refused())
	}
	var steps, refused strings.Builder
	for _, s := range r.Steps() {
		steps.WriteString(s.What + "\n")
	}
	for _, f := range r.Refused() {
		refused.WriteString(f.Mechanism.String() + ": " + f.What + ": " + f.Reason + "\n")
	}
	if !strings.Contains(steps.String(), want.step) {
		t.Errorf("the steps do not tell %q:\n%s", want.step, steps.String())
	}
	if !strings.Contains(refused.String(), want.refused) {
		t.Errorf("the refusals do not tell %q:\n%s", want.refused, refused.String())
	}
}

func TestToBetweenTwoDevices(t *testing.T) {
	exported, visible := core.AllocOptions{Export: handleType}, core.AllocOptions{HostVisible: true}
	for _, c := range []struct {
		name     string
		from, to core.Capabilities
		alloc    core.AllocOptions
		set      func(a, b *fake)
		options  exchange.Options
		want     way
	}{
		{name: "exported memory is imported", from: exports, to: imports, alloc: exported,
			want: way{exchange.Map, 0, "export memory of ext_dev:0 as ipc", "it is memory of ext_dev:0"}},
		{name: "importing ranks before viewing", from: exports | hostView, to: imports | mapHost, alloc: exported,
			set:  func(a, b *fake) { a.visible = true },
			want: way{mechanism: exchange.Map, step: "import it into ext_dev:1"}},
		{name: "memory not allocated for export is viewed and mapped", from: exports | hostView, to: imports | mapHost, alloc: visible,
			want: way{mechanism: exchange.Map, step: "map the view into ext_dev:1", refused: "not allocated for export"}},
		{name: "memory of other hardware is not imported", from: exports | peer, to: imports | peer, alloc: exported,
			set:  func(a, b *fake) { b.properties.UUID = core.UUID{9} },
			want: way{exchange.Peer, 1, "copies from its peer", "are different devices: UUID"}},
		{name: "memory of another driver is not imported", from: exports, to: imports | peer, alloc: exported,
			set:  func(a, b *fake) { b.properties.DriverUUID = core.UUID{9} },
			want: way{exchange.Peer, 1, "", "have different drivers: UUID"}},
		{name: "memory of a device without UUID is not imported", from: exports, to: imports | peer, alloc: exported,
			set:  func(a, b *fake) { a.properties.UUID = core.UUID{} },
			want: way{exchange.Peer, 1, "", "one of them has no UUID"}},
		{name: "the PCI address tells where UUIDs do not", from: exports, to: imports, alloc: exported,
			set: func(a, b *fake) {
				b.properties.UUID = core.UUID{9}
				a.properties.PCI, b.properties.PCI = "0000:65:00.0", "0000:65:00.0"
			},
			want: way{mechanism: exchange.Map}},
		{name: "an import that fails is a refusal", from: exports, to: imports | peer, alloc: exported,
			set:  func(a, b *fake) { b.fail("ImportMemory", core.ErrOutOfMemory) },
			want: way{exchange.Peer, 1, "", "fake: ImportMemory: out of memory"}},
		{name: "a peer copies", to: peer, want: way{exchange.Peer, 1, "ext_dev:1 copies from its peer ext_dev:0", "ext_dev:0 cannot export memory"}},
		{name: "a device says why it does not export", to: peer,
			set: func(a, b *fake) {
				a.properties.AddFeature("export", core.CapExportMemory, false, "its driver is too old")
			},
			want: way{exchange.Peer, 1, "", "ext_dev:0 cannot export memory: its driver is too old"}},
		{name: "a device says why it does not import", from: exports, to: peer, alloc: exported,
			set: func(a, b *fake) {
				b.properties.AddFeature("import", core.CapImportMemory, false, "its driver is too old")
			},
			want: way{exchange.Peer, 1, "", "ext_dev:1 cannot import memory: its driver is too old"}},
		{name: "a peer that refuses", from: hostView, to: peer, alloc: visible,
			set:  func(a, b *fake) { b.fail("CanPeer", core.ErrNotSupported) },
			want: way{exchange.Direct, 1, "the host views memory of ext_dev:0, ext_dev:1 copies from there", "peer: ext_dev:1 copies from its peer ext_dev:0: fake: CanPeer"}},
		{name: "the destination copies what the host views", from: hostView, alloc: visible,
			want: way{exchange.Direct, 1, "the host views memory of ext_dev:0, ext_dev:1 copies from there", "ext_dev:1 cannot map host memory"}},
		{name: "the source copies into what the host views", to: hostView,
			set:  func(a, b *fake) { b.visible = true },
			want: way{exchange.Direct, 1, "the host views memory of ext_dev:1, ext_dev:0 copies into it", ""}},
		{name: "the source copies into visible memory that was asked for", to: hostView,
			options: exchange.Options{Alloc: visible},
			want:    way{exchange.Direct, 1, "the host views memory of ext_dev:1", ""}},
		{name: "the source imports and copies", from: imports, to: exports | hostView,
			want: way{exchange.Direct, 1, "ext_dev:0 copies into it", "fake: HostView: not supported"}},
		{name: "memory exported as asked for is not exported otherwise", from: imports, to: exports,
			options: exchange.Options{Alloc: core.AllocOptions{Export: core.HandleDMABuf}},
			want:    way{exchange.Staged, 2, "", "Options.Alloc asks for export as dma_buf"}},
		{name: "nothing is shared: pieces go through the host",
			want: way{exchange.Staged, 2, "ext_dev:0 copies to the host, piece by piece", "the host cannot use memory of ext_dev:1 in place"}},
		{name: "pinned memory of the source", from: hostView, want: way{mechanism: exchange.Staged, copies: 2}},
		{name: "pinned memory of the destination", to: hostView, want: way{mechanism: exchange.Staged, copies: 2}},
		{name: "a copy although memory could be shared", from: exports, to: imports, alloc: exported,
			options: exchange.Options{Copy: exchange.Always},
			want:    way{exchange.Direct, 1, "ext_dev:1 copies from there", ""}},
		{name: "only staged", from: exports | hostView, to: imports | mapHost | peer, alloc: exported,
			options: exchange.Options{Only: exchange.Staged},
			want:    way{exchange.Staged, 2, "", "Options.Only asks for staged"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newFakes(t, c.from, c.to)
			if c.set != nil {
				c.set(a, b)
			}
			src := numbered(t, a, c.alloc, 8, 32)
			defer src.Close()
			part, err := src.Slice(0, 1, 8, 3) // rows 1, 4, 7: 3 of 32
			if err != nil {
				t.Fatal(err)
			}
			defer part.Close()
			got, report, err := exchange.To(t.Context(), part, b, c.options)
			if err != nil {
				t.Fatal(err)
			}
			check(t, report, part.NumBytes(), c.want)
			if got.Device() != core.Device(b) || !slices.Equal(got.Shape(), part.Shape()) {
				t.Errorf("the result is %v on %v", got, got.Device())
			}
			if want, have := read(t, a, part), read(t, b, got); !slices.Equal(have, want) {
				t.Errorf("the result holds %v, the source %v", have, want)
			}
			shares := report.Mechanism == exchange.Map
			values := make([]int32, part.NumElements())
			write(t, a, part, values)
			if have := read(t, b, got); slices.Equal(have, values) != shares {
				t.Errorf("after a write to the source the result holds %v, with %v", have, report.Mechanism)
			}
			again, second, err := exchange.To(t.Context(), part, b, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if second.Opened || second.Mechanism != report.Mechanism || second.BytesCopied != report.BytesCopied {
				t.Errorf("the second move: %+v", second)
			}
			if shares != report.Opened && c.options.Copy != exchange.Always && !strings.Contains(c.want.step, "views memory of ext_dev:0") {
				t.Errorf("%v opened: %v", report.Mechanism, report.Opened)
			}
			if err := again.WaitReady(t.Context()); err != nil {
				t.Error(err)
			}
			_, _ = again.Close(), got.Close()
		})
	}
}
