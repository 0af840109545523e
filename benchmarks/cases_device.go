package benchmarks

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// deviceCases are those of one device.
func (l *lister) deviceCases(id core.DeviceID) {
	l.hostPathCases(id)
	l.kernelCases(id)
	l.latencyCases(id)
	l.streamCases(id)
	l.stridedOnDevice(id)
	l.memoryCases(id)
	l.add(manyCase(id), l.extra(id))
	l.framesCases(id, l.extra(id))
	l.fileCases(id)
}

// add adds a case.
func (l *lister) add(c Case, extra bool) {
	c.Extra = extra
	l.cases = append(l.cases, c)
}

// latencyCases measure one small copy at a time, and waits.
func (l *lister) latencyCases(id core.DeviceID) {
	for _, way := range []string{toDevice, toHost} {
		family := "latency/" + way
		from, to := hostEnds(way, id)
		for i, size := range l.sizes(4, 256, 4<<10, 64<<10) {
			l.add(Case{
				Name:        strings.Join([]string{family, id.String()}, "/") + size.name,
				Description: "one copy by Device.Copy on a stream, from its call until the host knows that it is done",
				Family:      family, Kind: Latency, From: from, To: to, Memory: l.bestMemory(id), Size: size.bytes,
				setup: func(e *env) (trial, error) { return e.latency(id, way, e.bytes(size.bytes)) },
			}, l.extra(id) || i%3 != 0)
		}
	}
	l.add(Case{
		Name:        "wait_lateness/" + id.String(),
		Description: "a stream waits for the host, and the host for the stream: from the host's signal until it has returned from its own wait",
		Family:      "wait_lateness", Kind: Latency, From: Ends{id}, To: Ends{core.CPU},
		setup: func(e *env) (trial, error) { return e.lateness(id) },
	}, l.extra(id))
	for _, family := range []string{"host_device_latency_sm", "device_to_device_latency_sm"} {
		l.add(Case{
			Name:        family + "/" + id.String(),
			Description: "nvbandwidth's case of a kernel that follows pointers",
			Family:      family, Kind: Latency, From: Ends{id}, To: Ends{id},
			setup: func(*env) (trial, error) {
				return trial{}, core.Errorf(core.ErrNotSupported, "benchmarks", family, "dlx copies tensors and runs no other kernels, such as one that follows pointers; latency/ and wait_lateness/ have what its users wait for")
			},
		}, true)
	}
}

func (e *env) latency(id core.DeviceID, way string, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	one, kind, err := e.hostLane(d, way, e.bestMemory(d), true, size, sentSeed)
	if err != nil {
		return trial{}, err
	}
	t := trial{bytes: size, memory: kind, own: repeat(func() error {
		if err := d.Copy(e.ctx, one.stream, one.dst.tensor, one.src.tensor); err != nil {
			return err
		}
		return one.stream.Synchronize(e.ctx)
	})}
	t.verify = e.verifyLanes([]lane{one}, t.own)
	return t, nil
}

// bestMemory is the kind of the host's memory that an opened device copies from and to the fastest.
func (e *env) bestMemory(d core.Device) string {
	return bestMemory(d.ID(), d.Properties().Capabilities)
}

// lateness measures how late a wait of the host ends.
func (e *env) lateness(id core.DeviceID) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	s, err := d.NewStream(e.ctx)
	if err != nil {
		return trial{}, err
	}
	e.cleanup(func() { _ = s.Close() })
	timeline := stream.NewTimeline()
	e.cleanup(func() { _ = timeline.Close() })
	value := uint64(0)
	return trial{own: func(n int) (spent time.Duration, err error) {
		for range n {
			value++
			if err := s.Wait(timeline.At(value)); err != nil {
				return 0, err
			}
			released := make(chan time.Time, 1)
			// So that the host is in its wait when the signal comes.
			time.AfterFunc(200*time.Microsecond, func() {
				released <- time.Now()
				_ = timeline.Set(value) // it fails only if the timeline is closed
			})
			err := s.Synchronize(e.ctx)
			ended := time.Now()
			spent += ended.Sub(<-released)
			if err != nil {
				return spent, err
			}
		}
		return spent, nil
	}}, nil
}

// streamCases copy on several streams that begin together.
func (l *lister) streamCases(id core.DeviceID) {
	for _, n := range []int{2, 4} {
		for _, way := range []string{toDevice, toHost} {
			family := "streams/" + way
			from, to := hostEnds(way, id)
			for _, size := range l.buffer(id) {
				l.add(Case{
					Name:        fmt.Sprintf("%s/%v/%d%s", family, id, n, size.name),
					Description: "copies on several streams, which begin together, until all are done",
					Family:      family, Kind: Bandwidth, From: from, To: to, Memory: l.bestMemory(id), Size: size.bytes, Streams: n,
					setup: func(e *env) (trial, error) {
						d, err := e.open(id)
						if err != nil {
							return trial{}, err
						}
						var lanes []lane
						var kind string
						for i := range n {
							var one lane
							if one, kind, err = e.hostLane(d, way, e.bestMemory(d), true, e.bytes(size.bytes), sentSeed+uint64(i)); err != nil {
								return trial{}, err
							}
							lanes = append(lanes, one)
						}
						t, err := e.copies(lanes...)
						t.memory = kind
						return t, err
					},
				}, l.extra(id) || n != 2 || way != toDevice)
			}
		}
	}
}

// memoryCases allocate memory.
func (l *lister) memoryCases(id core.DeviceID) {
	for i, size := range l.sizes(4<<10, 1<<20, 64<<20) {
		l.add(Case{
			Name:        "alloc/pool/" + id.String() + size.name,
			Description: "memory of the device that its pool has, allocated and freed",
			Family:      "alloc/pool", Kind: Overhead, To: Ends{id}, Size: size.bytes,
			Target: Target{Measure: Time, Limit: 1e3},
			setup: func(e *env) (trial, error) {
				d, err := e.open(id)
				if err != nil {
					return trial{}, err
				}
				return trial{own: repeat(func() error { return e.allocAndFree(d, e.bytes(size.bytes)) })}, nil
			},
		}, l.extra(id) || i != 1)
	}
	for i, size := range l.sizes(1<<20, 64<<20) {
		l.add(Case{
			Name:        "alloc/driver/" + id.String() + size.name,
			Description: "memory of a device that was just opened, so that no pool has any; opening it, and freeing the memory, are off the clock",
			Family:      "alloc/driver", Kind: Overhead, To: Ends{id}, Size: size.bytes,
			setup: func(e *env) (trial, error) { return e.allocFromDriver(id, e.bytes(size.bytes)) },
		}, l.extra(id) || i != 0)
	}
}

func (e *env) allocAndFree(d core.Device, size int64) error {
	m, err := core.Alloc(e.ctx, d, size, core.AllocOptions{})
	if err == nil {
		m.Free()
	}
	return err
}

// allocFromDriver opens the device for each allocation: its pool is empty then, whatever its policy is.
func (e *env) allocFromDriver(id core.DeviceID, size int64) (trial, error) {
	if _, err := e.open(id); err != nil { // which keeps the driver's own state, so that opening it again is quick
		return trial{}, err
	}
	return trial{own: func(n int) (spent time.Duration, err error) {
		for range n {
			d, err := e.registry.Open(e.ctx, id)
			if err != nil {
				return spent, err
			}
			start := time.Now()
			m, err := core.Alloc(e.ctx, d, size, core.AllocOptions{})
			spent += time.Since(start)
			if err == nil {
				m.Free()
			}
			if closed := d.Close(); err == nil {
				err = closed
			}
			if err != nil {
				return spent, err
			}
		}
		return spent, nil
	}}, nil
}

// hostPacking is what a strided copy of a device is to replace: the host puts the
// elements into a row, and that is copied to the device.
const hostPacking = "host packing + upload"

// stridedOnDevice copies strided views on the device.
func (l *lister) stridedOnDevice(id core.DeviceID) {
	for _, v := range views {
		if !v.onDevices {
			continue
		}
		l.add(Case{
			Name:        strings.Join([]string{"strided", v.name, core.TypeFloat32.String(), id.String()}, "/"),
			Description: "Device.Copy into a row, both on the device: " + v.description,
			Family:      "strided/" + v.name, Kind: Bandwidth, From: Ends{id}, To: Ends{id},
			Target: Target{Measure: Speed, Limit: 1, Baseline: hostPacking},
			setup:  func(e *env) (trial, error) { return stridedOn(e, id, v) },
		}, l.extra(id) || v.name != "transpose")
	}
}

func stridedOn(e *env, id core.DeviceID, v view) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	host, err := e.device()
	if err != nil {
		return trial{}, err
	}
	shape := e.shape(v.shape)
	base, err := e.filled(d, core.TypeFloat32, core.AllocOptions{}, shape...)
	if err != nil {
		return trial{}, err
	}
	src, err := e.keep(v.of(base))
	if err != nil {
		return trial{}, err
	}
	dst, err := e.filled(d, core.TypeFloat32, core.AllocOptions{}, src.Shape()...)
	if err != nil {
		return trial{}, err
	}
	hostBase, err := e.tensor(host, core.TypeFloat32, shape...)
	if err != nil {
		return trial{}, err
	}
	hostSrc, err := e.keep(v.of(hostBase))
	if err != nil {
		return trial{}, err
	}
	packed, err := e.tensor(host, core.TypeFloat32, src.Shape()...)
	if err != nil {
		return trial{}, err
	}
	own := func() error { return d.Copy(e.ctx, nil, dst, src) }
	return trial{
		bytes:  src.NumBytes(),
		own:    repeat(own),
		verify: e.verifyStrided(d, dst, hostBase, hostSrc, own),
		baselines: []baseline{{
			name: hostPacking,
			sample: repeat(func() error {
				if err := host.Copy(e.ctx, nil, packed, hostSrc); err != nil {
					return err
				}
				return d.Copy(e.ctx, nil, dst, packed)
			}),
		}},
	}, nil
}
