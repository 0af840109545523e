package benchmarks

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// deviceCasesOf lists all cases but those of the host alone.
func deviceCasesOf(t *testing.T, s Selection) []Case {
	t.Helper()
	var cases []Case
	host := map[string]bool{}
	for _, c := range hostCases() {
		host[c.Name] = true
	}
	for _, c := range List(t.Context(), s) {
		if !host[c.Name] {
			cases = append(cases, c)
		}
	}
	return cases
}

func TestEveryCaseOfADeviceRuns(t *testing.T) {
	registry := hostRegistry(t)
	if err := registry.Register(coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})); err != nil {
		t.Fatal(err)
	}
	ext := []core.DeviceID{{Type: core.DeviceExt}, {Type: core.DeviceExt, Index: 1}}
	cases := deviceCasesOf(t, Selection{Registry: registry, Devices: ext, Transfers: []string{"cpu->ext_dev:0->ext_dev:1->cpu"}})
	checkDeviceCases(t, registry, cases)
}

// checkDeviceCases runs cases small. What a device cannot do must be unsupported, with a reason; bandwidths must be verified.
func checkDeviceCases(t *testing.T, registry *core.Registry, cases []Case) {
	t.Helper()
	report, err := Run(t.Context(), cases, Options{Registry: registry, Samples: 2, MaxTime: 1, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string]bool{}
	for _, r := range report.Cases {
		switch {
		case r.Status == Unsupported && r.Reason != "":
		case r.Status != OK || len(r.Times) != 2:
			t.Errorf("%s: %+v", r.Name, r)
		case r.Kind == Bandwidth && !r.Verified:
			t.Errorf("%s is not verified", r.Name)
		default:
			measured[r.Family] = true
		}
		for _, b := range r.Baselines {
			if r.Status == OK && b.NotMeasured != "" {
				t.Errorf("%s: %+v", r.Name, b)
			}
		}
	}
	for _, family := range []string{
		"host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "host_to_device_bidirectional_memcpy_ce", "device_local_copy",
		"latency/host_to_device", "streams/host_to_device", "strided/transpose", "alloc/pool", "alloc/driver", "many", "file_to_device", "exchange/copy", "exchange/plan",
	} {
		if !measured[family] {
			t.Errorf("no case of %s was measured", family)
		}
	}
}

func TestCasesOfADeviceThatIsNotThereSayWhy(t *testing.T) {
	cases := selected(t, List(t.Context(), Selection{Registry: hostRegistry(t)}), "*vulkan:0*", "*cuda:0*", "*rocm:0*")
	report, err := Run(t.Context(), cases, Options{Registry: hostRegistry(t), Small: true})
	if err != nil || len(report.Cases) < 100 {
		t.Fatalf("%d cases, %v", len(report.Cases), err)
	}
	for _, r := range report.Cases {
		if r.Status != Unsupported || !strings.Contains(r.Reason, "the registry has no backend") && !strings.Contains(r.Reason, "dlx copies tensors") && !strings.Contains(r.Reason, "it takes two devices") {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}

// With drivers that need no card, the cases of all backends of the build run. Simulated devices are not measured unless that
// is asked for, and are then marked.
func TestTheCasesOfRealBackendsRun(t *testing.T) {
	registry := all.New()
	devices, err := registry.Devices(t.Context())
	if len(devices) < 2 {
		t.Skipf("no device but the host: %v", err)
	}
	var ids []core.DeviceID
	simulated := map[core.DeviceID]bool{}
	for _, p := range devices {
		if p.ID == core.CPU || p.ID.Index > 1 {
			continue
		}
		ids = append(ids, p.ID)
		simulated[p.ID] = strings.HasPrefix(p.Name, "dlx simulated")
	}
	cases := deviceCasesOf(t, Selection{Registry: registry, Devices: ids})
	if coretest.Quick() {
		cases = someOfEachFamily(cases)
	}
	checkDeviceCases(t, registry, cases)
	for _, c := range selected(t, cases, "device_local_copy/") {
		for _, asked := range []bool{false, true} {
			report, err := Run(t.Context(), []Case{c}, Options{Registry: registry, Samples: 2, MaxTime: 1, Simulated: asked})
			if err != nil {
				t.Fatal(err)
			}
			r := report.Cases[0]
			if only := simulated[c.To[0]]; (r.Status == OK) != (asked || !only) || r.Simulated != (only && asked) {
				t.Errorf("%s, simulated %v, asked for %v: %+v", c.Name, only, asked, r)
			}
		}
	}
}

func TestAGroupCountsTheDevicesThatTakePart(t *testing.T) {
	registry := hostRegistry(t)
	if err := registry.Register(coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})); err != nil {
		t.Fatal(err)
	}
	one, two, missing := core.DeviceID{Type: core.DeviceExt}, core.DeviceID{Type: core.DeviceExt, Index: 1}, core.DeviceID{Type: core.DeviceVulkan}
	group := func(bothWays bool, ids ...core.DeviceID) Case {
		return Case{Name: "group", Kind: Bandwidth, From: Ends(ids), To: Ends{core.CPU}, Streams: len(ids), setup: func(e *env) (trial, error) {
			return e.hostAndAll(ids, toHost, bothWays, 4096)
		}}
	}
	report, err := Run(t.Context(), []Case{group(false, one, missing, two), group(true, one, missing)}, Options{Registry: registry, Samples: 2, MaxTime: 1, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	r := report.Cases[0]
	if r.Status != OK || r.Streams != 2 || !slices.Equal(r.From, Ends{one, two}) || !slices.Equal(r.To, Ends{core.CPU}) || r.Bytes != 2*4096 {
		t.Errorf("%+v", r)
	}
	if r := report.Cases[1]; r.Status != Unsupported || !strings.Contains(r.Reason, "there are 1") {
		t.Errorf("one device that copies both ways is no group: %+v", r)
	}
}

func TestWhatIsAskedForTwiceIsListedOnce(t *testing.T) {
	pair, chain := [2]core.DeviceID{core.CPU, {Type: core.DeviceExt}}, "cpu->ext_dev:0"
	names := map[string]bool{}
	for _, c := range List(t.Context(), Selection{Pairs: [][2]core.DeviceID{pair, pair}, Transfers: []string{chain, chain}}) {
		if names[c.Name] {
			t.Errorf("%s is listed twice", c.Name)
		}
		names[c.Name] = true
	}
	if len(names) < 2 {
		t.Errorf("%v", names)
	}
}

// someOfEachFamily returns the first case of each family and every fourth of the others, not always of the same devices.
func someOfEachFamily(cases []Case) (some []Case) {
	seen, families := map[string]int{}, 0
	for _, c := range cases {
		if _, ok := seen[c.Family]; !ok {
			seen[c.Family] = families
			families++
			some = append(some, c)
		} else if seen[c.Family]++; seen[c.Family]%4 == 0 {
			some = append(some, c)
		}
	}
	return some
}

// A baseline that does not copy what the case copies is not measured.
func TestABaselineIsVerified(t *testing.T) {
	e := gateEnv(t)
	d, err := e.device()
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.localLane(d, 3*pieceSize, sentSeed)
	if err != nil {
		t.Fatal(err)
	}
	part := func(bytes int64) sampler {
		return timed(func(int) error {
			dst, err := core.Mutable[uint8](l.dst.host)
			if err != nil {
				return err
			}
			src, err := core.Values[uint8](l.src.host)
			copy(dst[:bytes], src)
			return err
		})
	}
	for _, bytes := range []int64{3 * pieceSize, 0, 3*pieceSize - 1, 3 * pieceSize} {
		whole := bytes == 3*pieceSize
		if err := e.verifyBare(l, part(bytes)); (err == nil) != whole {
			t.Errorf("%d bytes copied: error %v", bytes, err)
		}
		if err := e.write(l.dst, l.seed+beforeSeed); err != nil {
			t.Fatal(err)
		}
	}
	failed := errors.New("the loop failed")
	if err := e.verifyBare(l, func(int) (time.Duration, error) { return 0, failed }); !errors.Is(err, failed) {
		t.Errorf("a loop that fails: error %v", err)
	}
}
