package benchmarks

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/webgpu"
	"github.com/dlx-go/dlx/benchmarks/internal/barecuda"
	"github.com/dlx-go/dlx/benchmarks/internal/bareopencl"
	"github.com/dlx-go/dlx/benchmarks/internal/barewebgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// The kinds of the host's memory: [Result.Memory].
const (
	pinned   = "pinned"   // allocated by the device's API, which never moves it
	mapped   = "mapped"   // the host's own, into which the device looks
	managed  = "managed"  // moved by the driver to where it is used
	pageable = "pageable" // the host's own, of which the API knows nothing
)

var hostMemories = []string{pinned, mapped, managed, pageable}

// pinnedTypes are the types of memory that APIs pin, and managedTypes those that drivers move.
var (
	pinnedTypes  = map[core.DeviceType]core.DeviceType{core.DeviceCUDA: core.DeviceCUDAHost, core.DeviceROCM: core.DeviceROCMHost}
	managedTypes = map[core.DeviceType]core.DeviceType{core.DeviceCUDA: core.DeviceCUDAManaged}
)

// bestMemory is the kind that a device copies from and to the fastest.
func (l *lister) bestMemory(id core.DeviceID) string {
	return bestMemory(id, l.properties[id].Capabilities)
}

func bestMemory(id core.DeviceID, can core.Capabilities) string {
	switch {
	case pinnedTypes[id.Type] != 0:
		return pinned
	case can.Has(backendkit.CapabilityOf[core.HostMapper]()):
		return mapped
	default:
		return pageable
	}
}

// onDevice allocates memory of a device, with the content of a seed.
func (e *env) onDevice(d core.Device, opts core.AllocOptions, size int64, seed uint64) (place, error) {
	t, err := e.keep(core.Empty(e.ctx, d, core.TypeUint8, []int64{size}, opts))
	if err != nil {
		return place{}, err
	}
	p := place{device: d, tensor: t}
	if t.DeviceID().Type.HostAccessible() {
		p.host = t
	}
	return p, e.write(p, seed)
}

// onHost allocates memory of the host of one kind, for copies by d, with the content of a seed.
func (e *env) onHost(d core.Device, kind string, size int64, seed uint64) (place, error) {
	switch kind {
	case pinned, managed:
		types := map[string]map[core.DeviceType]core.DeviceType{pinned: pinnedTypes, managed: managedTypes}[kind]
		t, ok := types[d.ID().Type]
		if !ok {
			return place{}, core.Errorf(core.ErrNotSupported, "benchmarks", "onHost", "dlx has no %s memory of %v", kind, d.ID())
		}
		return e.onDevice(d, core.AllocOptions{Type: t}, size, seed)
	}
	host, err := e.device()
	if err != nil {
		return place{}, err
	}
	p, err := e.onDevice(host, core.AllocOptions{}, size, seed)
	if err != nil {
		return place{}, err
	}
	p.device = d
	if kind == mapped {
		p.tensor, _, err = e.share(p.tensor, d)
		if _, err := e.keep(p.tensor, err); err != nil {
			return place{}, err
		}
	}
	return p, nil
}

// share opens the memory of t for d, without a copy. Where that cannot be, the case is unsupported.
func (e *env) share(t *core.Tensor, d core.Device) (*core.Tensor, exchange.Report, error) {
	return e.move(t, d, exchange.Options{Copy: exchange.Never})
}

// onBestHost is onHost of the kind, or of the host's own memory if the kind is mapped and the driver refuses it. It also returns
// the kind that it is.
func (e *env) onBestHost(d core.Device, kind string, size int64, seed uint64) (place, string, error) {
	p, err := e.onHost(d, kind, size, seed)
	if err != nil && kind == mapped {
		kind = pageable
		p, err = e.onHost(d, kind, size, seed)
	}
	return p, kind, err
}

// lane is a stream of copies from one place to another, again and again.
type lane struct {
	device   core.Device // that copies
	stream   core.Stream
	dst, src place
	seed     uint64       // of src's content
	way      string       // how the copier reaches the memory of another device
	copy     func() error // how it is copied, nil by Device.Copy
	load     bool         // it only keeps the devices busy
}

// lane opens a stream for copies by d.
func (e *env) lane(d core.Device, dst, src place, seed uint64) (lane, error) {
	s, err := e.stream(d)
	return lane{device: d, stream: s, dst: dst, src: src, seed: seed}, err
}

// copies measures lanes that work at the same time. One that only keeps the devices busy copies twice as often, and
// its bytes do not count.
func (e *env) copies(lanes ...lane) (trial, error) {
	var t trial
	for _, l := range lanes {
		if !l.load {
			t.bytes += l.src.tensor.NumBytes()
		}
	}
	op := func(l lane) func() error {
		if l.copy != nil {
			return l.copy
		}
		return func() error { return l.device.Copy(e.ctx, l.stream, l.dst.tensor, l.src.tensor) }
	}
	if len(lanes) == 1 {
		t.enqueued(e, lanes[0].device, lanes[0].stream, op(lanes[0]))
	} else {
		g := e.gate()
		t.own = func(n int) (time.Duration, error) {
			list := make([]work, len(lanes))
			for i, l := range lanes {
				list[i] = work{stream: l.stream, times: n, op: op(l), ignored: l.load}
				if l.load {
					list[i].times *= 2
				}
			}
			return g.run(e.ctx, list)
		}
		if _, err := t.own(1); err != nil {
			return t, err
		}
		t.notes = g.notes()
		for _, l := range lanes {
			t.resolution = max(t.resolution, emptyWait(e.ctx, l.stream))
		}
	}
	t.verify = e.verifyLanes(lanes, t.own)
	return t, nil
}

// enqueued has the trial measure an operation that is enqueued on a stream of d, n times in a row.
func (t *trial) enqueued(e *env, d core.Device, s core.Stream, op func() error) {
	t.own, t.clock, t.resolution = deviceTimed(e.ctx, d, s, func(n int) error {
		for range n {
			if err := op(); err != nil {
				return err
			}
		}
		return nil
	})
}

// verifyLanes compares what the lanes have copied, changes it, and compares what one more operation copies: a copy that does
// nothing would be seen.
func (e *env) verifyLanes(lanes []lane, own sampler) func() (*Mismatch, error) {
	check := func() (*Mismatch, error) {
		for _, l := range lanes {
			if m, err := e.check(l.dst, l.seed, l.seed+beforeSeed); m != nil || err != nil {
				return m, err
			}
		}
		return nil, nil
	}
	return func() (*Mismatch, error) {
		if m, err := check(); m != nil || err != nil {
			return m, err
		}
		for _, l := range lanes {
			if err := e.write(l.dst, l.seed+beforeSeed); err != nil {
				return nil, err
			}
		}
		if _, err := own(1); err != nil {
			return nil, err
		}
		return check()
	}
}

// What copies of some devices are compared with: the same calls of the driver, on the same memory.
const (
	bareLoop       = "bare cuMemcpyAsync loop"
	bareCLLoop     = "bare loop of clEnqueueWriteBuffer or clEnqueueReadBuffer"
	bareUSMLoop    = "bare loop of clEnqueueMemcpyINTEL"
	bareWebGPULoop = "bare loop of WebGPU's calls"
	bareWebGPUHost = "bare loop of WebGPU's calls, each waited for, by one thread"
)

// bareTarget is the target of a large copy that is compared with that: of CUDA with pinned memory of the host, of OpenCL and oneAPI with
// memory that they do not know, and of CUDA, oneAPI and WebGPU within the device. Copies between the host and WebGPU have none: Device.Copy
// has two pieces on their way and uses several threads, and the loop does not.
func bareTarget(id core.DeviceID, from, to Ends, memory string, size int64, limit float64) Target {
	within := slices.Equal(from, to)
	t := Target{Measure: Speed, Limit: limit}
	switch {
	case size < softwareBuffer: // a short copy is a measure of the calls around it
		return Target{}
	case id.Type == core.DeviceCUDA && (within || memory == pinned):
		t.Baseline = bareLoop
	case id.Type == core.DeviceOpenCL && !within && memory == pageable:
		t.Baseline = bareCLLoop
	case id.Type == core.DeviceOneAPI && (within || memory == pageable):
		t.Baseline, t.Limit = bareUSMLoop, 0.9
	case id.Type == core.DeviceWebGPU && within:
		t.Baseline, t.Limit = bareWebGPULoop, 0.9
	default:
		return Target{}
	}
	return t
}

// besideBareLoop adds a loop of bare calls of the driver, where there is one. Both are then timed by the host. A loop whose first copy
// does not arrive is not measured.
func (e *env) besideBareLoop(t trial, id core.DeviceID, l lane) trial {
	bytes := l.src.tensor.NumBytes()
	within := l.src.tensor.DeviceID() == id && l.dst.tensor.DeviceID() == id
	var bare baseline
	var err error
	switch {
	case id.Type == core.DeviceCUDA:
		bare.name = bareLoop
		var loop *barecuda.Loop
		if loop, err = barecuda.Open(int(id.Index)); err == nil {
			e.cleanup(loop.Close)
			bare.sample = func(n int) (time.Duration, error) {
				return loop.Copy(address(l.dst.tensor), address(l.src.tensor), bytes, n)
			}
		}
	case id.Type == core.DeviceOneAPI:
		bare.name = bareUSMLoop
		var loop *bareopencl.Loop
		if loop, err = bareopencl.Open(l.stream.Native()); err == nil {
			bare.sample = func(n int) (time.Duration, error) {
				return loop.Memcpy(address(l.dst.tensor), address(l.src.tensor), bytes, n)
			}
		}
	case id.Type == core.DeviceOpenCL && (l.src.host != nil) != (l.dst.host != nil) && t.memory == pageable:
		bare.name = bareCLLoop
		var loop *bareopencl.Loop
		if loop, err = bareopencl.Open(l.stream.Native()); err == nil {
			upload, buffer, host := l.src.host != nil, l.dst.tensor, l.src.host
			if !upload {
				buffer, host = l.src.tensor, l.dst.host
			}
			bare.sample = func(n int) (time.Duration, error) {
				return loop.Copy(upload, handle(buffer), buffer.Offset(), address(host), bytes, n)
			}
		}
	case id.Type == core.DeviceWebGPU && (within || t.memory == pageable):
		if bare.name = bareWebGPULoop; !within {
			bare.name = bareWebGPUHost
		}
		bare.sample, err = e.bareWebGPU(l, bytes)
	default:
		return t
	}
	if err == nil {
		err = e.verifyBare(l, bare.sample)
	}
	if err != nil {
		bare.reason = err.Error()
	}
	t.own = timed(func(n int) error {
		for range n {
			if err := l.device.Copy(e.ctx, l.stream, l.dst.tensor, l.src.tensor); err != nil {
				return err
			}
		}
		return l.stream.Synchronize(e.ctx)
	})
	t.clock, t.resolution = HostClock, emptyWait(e.ctx, l.stream)
	t.baselines = append(t.baselines, bare)
	return t
}

// verifyBare has a baseline copy once, compares what arrived, and writes other bytes over it again. The destination has other bytes before.
func (e *env) verifyBare(l lane, sample sampler) error {
	if _, err := sample(1); err != nil {
		return err
	}
	m, err := e.check(l.dst, l.seed, l.seed+beforeSeed)
	if err == nil && m != nil {
		err = core.Errorf(core.ErrInvalid, "benchmarks", "verifyBare", "the baseline did not copy: %s", m.Text)
	}
	if err != nil {
		return err
	}
	return e.write(l.dst, l.seed+beforeSeed)
}

// bareWebGPU returns the loop of WebGPU's calls that does what a lane does.
func (e *env) bareWebGPU(l lane, bytes int64) (func(n int) (time.Duration, error), error) {
	device, err := webgpu.DeviceOf(l.device)
	if err != nil {
		return nil, err
	}
	loop, err := barewebgpu.Open(device)
	if err != nil {
		return nil, err
	}
	e.cleanup(loop.Close)
	dst, src := l.dst.tensor, l.src.tensor
	return func(n int) (time.Duration, error) {
		switch {
		case l.src.host != nil:
			return loop.Upload(handle(dst), dst.Offset(), address(src), bytes, n)
		case l.dst.host != nil:
			return loop.Download(address(dst), handle(src), src.Offset(), bytes, n)
		default:
			return loop.Within(handle(dst), dst.Offset(), handle(src), src.Offset(), bytes, n)
		}
	}, nil
}

// handle is the handle of the memory of a tensor.
func handle(t *core.Tensor) uintptr {
	b, err := t.Buffer()
	if err != nil { // closed: the copy would fail too
		return 0
	}
	return b.Memory().Handle
}

// address is where the bytes of a tensor that has an address begin.
func address(t *core.Tensor) uintptr {
	b, err := t.Buffer()
	if err != nil { // closed: the copy would fail too
		return 0
	}
	m := b.Memory()
	return m.Handle + uintptr(m.Offset)
}

// Ways between the host and a device.
const (
	toDevice = "host_to_device"
	toHost   = "device_to_host"
)

// hostEnds are the ends of a copy between the host and a device.
func hostEnds(family string, id core.DeviceID) (from, to Ends) {
	from, to = Ends{core.CPU}, Ends{id}
	if strings.HasPrefix(family, toHost) {
		from, to = to, from
	}
	return from, to
}

// hostPathCases are those of copies between the host and a device, and within the device.
func (l *lister) hostPathCases(id core.DeviceID) {
	best := l.bestMemory(id)
	for _, way := range []string{toDevice, toHost} {
		family := way + "_memcpy_ce"
		from, to := hostEnds(way, id)
		for _, kind := range append([]string{""}, hostMemories...) {
			sizes := l.buffer(id)
			if kind == pageable && id.Type == core.DeviceOpenCL && l.Sizes == nil && l.Buffer == 0 {
				sizes[0].bytes = bigBuffer // what a call costs is compared, on one that is long enough
			}
			for _, size := range sizes {
				c := Case{
					Name:        strings.Join([]string{family, id.String()}, "/"),
					Description: "copies by Device.Copy on a stream, one after the other, with the kind of the host's memory that the device has for it",
					Family:      family, Kind: Bandwidth, From: from, To: to, Memory: best, Size: size.bytes,
					Extra:  l.extra(id),
					Target: bareTarget(id, from, to, best, size.bytes, 0.99),
					setup: func(e *env) (trial, error) {
						return e.hostCopy(id, way, cmp.Or(kind, best), kind == "", e.bytes(size.bytes))
					},
				}
				if kind != "" {
					c.Name += "/" + kind
					c.Description, c.Memory, c.Target = "the same with "+kind+" memory of the host", kind, bareTarget(id, from, to, kind, size.bytes, 0.99)
					// What is compared with bare calls of the driver shows what dlx itself costs.
					c.Extra = c.Extra || kind == best || c.Target == (Target{})
				}
				c.Name += size.name
				l.cases = append(l.cases, c)
			}
		}
	}
	for _, way := range []string{toDevice, toHost} {
		family := way + "_bidirectional_memcpy_ce"
		from, to := hostEnds(way, id)
		for _, size := range l.buffer(id) {
			l.cases = append(l.cases, Case{
				Name:        family + "/" + id.String() + size.name,
				Description: "copies in one direction while others, which are not counted, go in the other one",
				Family:      family, Kind: Bandwidth, From: from, To: to, Memory: best, Size: size.bytes, Streams: 2,
				Extra: l.extra(id),
				setup: func(e *env) (trial, error) { return e.bothWays(id, way, best, e.bytes(size.bytes)) },
			})
		}
	}
	for _, size := range l.buffer(id) {
		l.cases = append(l.cases, Case{
			Name:        "device_local_copy/" + id.String() + size.name,
			Description: "copies by Device.Copy on a stream, within the memory of the device; each byte is read and written, and counts once",
			Family:      "device_local_copy", Kind: Bandwidth, From: Ends{id}, To: Ends{id}, Size: size.bytes,
			Extra:  l.extra(id),
			Target: bareTarget(id, Ends{id}, Ends{id}, "", size.bytes, 0.98),
			setup:  func(e *env) (trial, error) { return e.localCopy(id, e.bytes(size.bytes)) },
		})
	}
}

// hostLane is a lane between the host and the device. If fallback is set, another kind of memory than the asked one will do.
func (e *env) hostLane(d core.Device, way, kind string, fallback bool, size int64, seed uint64) (lane, string, error) {
	onHost := func(seed uint64) (p place, err error) {
		if fallback {
			p, kind, err = e.onBestHost(d, kind, size, seed)
			return p, err
		}
		return e.onHost(d, kind, size, seed)
	}
	onDevice := func(seed uint64) (place, error) { return e.onDevice(d, core.AllocOptions{}, size, seed) }
	source, destination := onHost, onDevice
	if way == toHost {
		source, destination = onDevice, onHost
	}
	src, err := source(seed)
	if err != nil {
		return lane{}, kind, err
	}
	dst, err := destination(seed + beforeSeed)
	if err != nil {
		return lane{}, kind, err
	}
	one, err := e.lane(d, dst, src, seed)
	return one, kind, err
}

func (e *env) hostCopy(id core.DeviceID, way, kind string, fallback bool, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	one, kind, err := e.hostLane(d, way, kind, fallback, size, sentSeed)
	if err != nil {
		return trial{}, err
	}
	t, err := e.copies(one)
	t.memory = kind
	return e.besideBareLoop(t, id, one), err
}

func (e *env) bothWays(id core.DeviceID, way, kind string, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	measured, kind, err := e.hostLane(d, way, kind, true, size, sentSeed)
	if err != nil {
		return trial{}, err
	}
	other := toHost
	if way == toHost {
		other = toDevice
	}
	load, _, err := e.hostLane(d, other, kind, true, size, sentSeed+1)
	if err != nil {
		return trial{}, err
	}
	load.load = true
	t, err := e.copies(measured, load)
	t.memory = kind
	return t, err
}

func (e *env) localCopy(id core.DeviceID, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	one, err := e.localLane(d, size, sentSeed)
	if err != nil {
		return trial{}, err
	}
	t, err := e.copies(one)
	return e.besideBareLoop(t, id, one), err
}

// localLane is a lane within a device.
func (e *env) localLane(d core.Device, size int64, seed uint64) (lane, error) {
	src, err := e.onDevice(d, core.AllocOptions{}, size, seed)
	if err != nil {
		return lane{}, err
	}
	dst, err := e.onDevice(d, core.AllocOptions{}, size, seed+beforeSeed)
	if err != nil {
		return lane{}, err
	}
	return e.lane(d, dst, src, seed)
}

// move takes t to d. Where that cannot be by the mechanisms that are allowed, the case is unsupported.
func (e *env) move(t *core.Tensor, d core.Device, allowed exchange.Options) (*core.Tensor, exchange.Report, error) {
	moved, report, err := exchange.To(e.ctx, t, d, allowed)
	var none *exchange.NoWayError
	if errors.As(err, &none) {
		err = core.Errorf(core.ErrNotSupported, "exchange", "To", "%s", whyNot(none, allowed))
	}
	return moved, report, err
}
