package benchmarks

import (
	"bytes"
	"context"
	"encoding/binary"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// Content has no period, so that bytes at another place are wrong bytes, and what is written in parts is what is written at once.
func TestEachPieceOfTheContentIsAnother(t *testing.T) {
	whole := make([]byte, 3*pieceSize+13)
	fill(whole, 5)
	words := make(map[uint64]bool)
	for b := whole; len(b) >= 8; b = b[8:] {
		words[binary.LittleEndian.Uint64(b)] = true
	}
	if len(words) != len(whole)/8 {
		t.Errorf("%d of %d words differ", len(words), len(whole)/8)
	}
	for _, n := range []int{0, 3, 8, 1001, pieceSize, pieceSize + 3} {
		part := make([]byte, n)
		if fill(part, 5); !bytes.Equal(part, whole[:n]) {
			t.Errorf("%d bytes are others than the first %d of more", n, n)
		}
	}
	part := make([]byte, pieceSize+3)
	if fill(part, 6); bytes.Equal(part[pieceSize:], whole[pieceSize:len(part)]) {
		t.Error("another seed has the same bytes")
	}
}

func TestAMismatchIsExplained(t *testing.T) {
	const size = 3 * pageBytes
	want, before := make([]byte, size), make([]byte, size)
	fill(want, sentSeed)
	fill(before, sentSeed+beforeSeed)
	for _, c := range []struct {
		name          string
		spoil         func(got []byte)
		offset, wrong int64 // of the last, 0 means that it is not tested
		says          []string
	}{
		{"a bit", func(got []byte) { got[5000] ^= 8 }, 5000, 1, []string{"1 of 12288", "offset 5000 (0x1388)", "bit 3 of byte 0", "a single bit"}},
		{"a page", func(got []byte) { clear(got[pageBytes : 2*pageBytes]) }, 0, 0, []string{"pages of zeros, up to offset 8192", "never written"}},
		{"zeros", func(got []byte) { clear(got[100:200]) }, 0, 0, []string{"zeros: memory"}},
		{"old bytes", func(got []byte) { copy(got[300:], before[300:]) }, 300, 0, []string{"from before the copy"}},
		{"later", func(got []byte) { copy(got[64:], want[:size-64]) }, 0, 0, []string{"shifted by 64"}},
		{"earlier", func(got []byte) { copy(got, want[7:]) }, 0, 0, []string{"shifted by -7"}},
		{"others", func(got []byte) { fill(got[1000:2000], 77) }, 0, 0, []string{"neither zeros, nor old, nor shifted"}},
		{"the last byte", func(got []byte) { got[size-1] ^= 0xff }, size - 1, 1, []string{"bit 7 of byte 0"}},
	} {
		got := bytes.Clone(want)
		c.spoil(got)
		m := compare(got, sentSeed, sentSeed+beforeSeed)
		if m == nil {
			t.Errorf("%s: not found", c.name)
			continue
		}
		if c.offset > 0 && m.Offset != c.offset || c.wrong > 0 && m.Wrong != c.wrong || m.Of != size || m.Want == m.Got || m.Bits == "" {
			t.Errorf("%s: %+v", c.name, m)
		}
		for _, text := range c.says {
			if !strings.Contains(m.Text, text) {
				t.Errorf("%s: %q is not in %q", c.name, text, m.Text)
			}
		}
	}
	if m := compare(want, sentSeed, sentSeed+beforeSeed); m != nil {
		t.Errorf("equal bytes: %+v", m)
	}
	if m := compare(nil, sentSeed, 0); m != nil {
		t.Errorf("no bytes: %+v", m)
	}
}

// broken is a backend whose devices copy as spoil says.
type broken struct {
	core.Backend
	copies func(d core.Device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error
}

type brokenDevice struct {
	*coretest.Device
	copies func(d core.Device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error
}

func (b broken) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	d, err := b.Backend.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return &brokenDevice{d.(*coretest.Device), b.copies}, nil
}

func (d *brokenDevice) Properties() core.Properties {
	p := d.Device.Properties()
	p.Capabilities = 0 // whatever is copied is copied by Copy
	return p
}

func (d *brokenDevice) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	return d.copies(d.Device, ctx, s, dst, src)
}

// runBroken measures the cases of a device that copies wrongly.
func runBroken(t *testing.T, copies func(d core.Device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error, patterns ...string) []Result {
	t.Helper()
	r := hostRegistry(t)
	if err := r.Register(broken{coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf}), copies}); err != nil {
		t.Fatal(err)
	}
	cases := selected(t, List(t.Context(), Selection{Registry: r, Devices: []core.DeviceID{{Type: core.DeviceExt}}}), patterns...)
	report, err := Run(t.Context(), cases, Options{Registry: r, Samples: 2, MaxTime: 1, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	return report.Cases
}

// A device that copies within itself by doing nothing, and one that loses the last byte: no bandwidth is reported.
func TestADeviceThatCopiesWronglyFails(t *testing.T) {
	onDevice := func(x *core.Tensor) bool { return x.DeviceID().Type == core.DeviceExt }
	nothing := func(d core.Device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if onDevice(dst) && onDevice(src) {
			return nil
		}
		return d.Copy(ctx, s, dst, src)
	}
	for _, r := range runBroken(t, nothing, "device_local_copy/", "strided/") {
		if r.Status != Failed || r.Mismatch == nil || r.Verified && r.Times != nil || !strings.Contains(r.Reason, "are wrong") {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
	short := func(d core.Device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if n := dst.NumBytes(); onDevice(dst) && !onDevice(src) && dst.Rank() == 1 && n > 1 && dst.DType() == core.TypeUint8 {
			to, err := dst.Slice(0, 0, n-1, 1)
			if err != nil {
				return err
			}
			defer to.Close()
			from, err := src.Slice(0, 0, n-1, 1)
			if err != nil {
				return err
			}
			defer from.Close()
			return d.Copy(ctx, s, to, from)
		}
		return d.Copy(ctx, s, dst, src)
	}
	results := runBroken(t, short, "host_to_device_memcpy_ce/ext_dev:0", "latency/host_to_device/", "streams/host_to_device/", "file_to_device/")
	for _, r := range results {
		if slices.Contains([]string{"pinned", "managed", "mapped", "cufile"}, path.Base(r.Name)) {
			if r.Status != Unsupported {
				t.Errorf("%s: %+v, want unsupported", r.Name, r)
			}
			continue
		}
		if r.Status != Failed || r.Mismatch == nil {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}

// A copy that stops after some time would leave right bytes from before: the destination is changed first.
func TestACopyThatStopsIsFound(t *testing.T) {
	within := 0
	stops := func(d core.Device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if dst.DeviceID().Type == core.DeviceExt && src.DeviceID().Type == core.DeviceExt {
			if within++; within > 1 {
				return nil
			}
		}
		return d.Copy(ctx, s, dst, src)
	}
	r := runBroken(t, stops, "device_local_copy/")[0]
	if r.Status != Failed || r.Mismatch == nil || !strings.Contains(r.Reason, "from before the copy") {
		t.Errorf("%+v", r)
	}
}

func TestALostDeviceEndsOnlyItsCases(t *testing.T) {
	backend := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
	r := hostRegistry(t)
	if err := r.Register(backend); err != nil {
		t.Fatal(err)
	}
	cases := selected(t, List(t.Context(), Selection{Registry: r, Devices: []core.DeviceID{core.CPU, {Type: core.DeviceExt}}}),
		"device_local_copy/", "streams/host_to_device/", "core/slice")
	last := len(cases) - 1
	cases[0], cases[last] = cases[last], cases[0]
	inner, begun := cases[0].setup, 0
	cases[0].setup = func(e *env) (trial, error) {
		tr, err := inner(e)
		own := tr.own
		if own != nil {
			tr.own = func(n int) (d time.Duration, err error) {
				if begun++; begun == 2 {
					backend.Lose(0)
				}
				return own(n)
			}
		}
		return tr, err
	}
	report, err := Run(t.Context(), cases, Options{Registry: r, Samples: 2, MaxTime: 1, Small: true})
	if err != nil || len(report.Cases) != len(cases) {
		t.Fatalf("%d results, %v", len(report.Cases), err)
	}
	for _, c := range report.Cases {
		onHost := c.Name == "core/slice"
		if onHost != (c.Status == OK) || !onHost && !strings.Contains(c.Reason, "lost") {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	if len(report.Cases) < 4 {
		t.Errorf("%d cases", len(report.Cases))
	}
}
