package benchmarks

import (
	"strings"
	"time"

	"github.com/dlx-go/dlx/benchmarks/internal/barecuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// bareLoop is what copies on CUDA are compared with: the same call of the driver's, on the same memory.
const bareLoop = "bare cuMemcpyAsync loop"

// maxHandoff is the longest that handing memory from a card's own API to Vulkan may take, in nanoseconds.
const maxHandoff = 25e3

// cudaCases measure a CUDA device beside its driver.
func cudaCases(id core.DeviceID) []Case {
	return cardCases(id, core.DeviceCUDAHost, Target{Measure: Speed, Baseline: bareLoop})
}

// cardCases measure a device that has pinned memory. bare is the target of large copies, without its limit, if there is something to
// compare them with.
func cardCases(id core.DeviceID, pinned core.DeviceType, bare Target) []Case {
	host, api := core.AllocOptions{Type: pinned}, id.Type.String()
	var cases []Case
	for _, c := range []struct {
		name, description string
		dst, src          core.AllocOptions
		limit             float64
	}{
		{"upload", "from pinned memory to the device", core.AllocOptions{}, host, 0.99},
		{"download", "from the device to pinned memory", host, core.AllocOptions{}, 0.99},
		{"local", "within the device", core.AllocOptions{}, core.AllocOptions{}, 0.98},
	} {
		for _, size := range []int64{4 << 10, 1 << 20, 64 << 20} {
			var target Target // a short copy is a measure of the calls around it
			if size == 64<<20 && bare.Baseline != "" {
				target = bare
				target.Limit = c.limit
			}
			cases = append(cases, Case{
				Name:        strings.Join([]string{api, c.name, binarySize(size)}, "/"),
				Description: "Device.Copy on a stream, " + c.description + ", one after the other",
				Target:      target,
				setup:       func(e *env) (trial, error) { return streamCopies(e, id, c.dst, c.src, e.bytes(size)) },
			})
		}
	}
	return append(cases, Case{
		Name:        api + "/alloc/1MiB",
		Description: "memory from the pool, and its release",
		Target:      Target{Measure: Time, Limit: 1e3},
		setup: func(e *env) (trial, error) {
			d, err := e.open(id)
			if err != nil {
				return trial{}, err
			}
			return trial{own: repeat(func() error {
				m, err := d.Alloc(e.ctx, 1<<20, core.AllocOptions{})
				if err == nil {
					m.Free()
				}
				return err
			})}, nil
		},
	}, Case{
		Name:        api + "/handoff/" + api + "-vulkan",
		Description: "handing memory whose last write is unfinished from a stream of " + api + " to one of Vulkan; the write and the wait for it are off the clock",
		Target:      Target{Measure: Time, Limit: maxHandoff},
		setup:       pairCase(id, core.DeviceID{Type: core.DeviceVulkan}, pair.handoff),
	}, Case{
		Name:        api + "/handoff/vulkan-" + api,
		Description: "the reverse",
		Target:      Target{Measure: Time, Limit: maxHandoff},
		setup:       pairCase(core.DeviceID{Type: core.DeviceVulkan}, id, pair.handoff),
	})
}

// streamCopies enqueues copies between two kinds of memory of a device.
func streamCopies(e *env, id core.DeviceID, dst, src core.AllocOptions, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	s, err := e.stream(d)
	if err != nil {
		return trial{}, err
	}
	to, err := e.filled(d, core.TypeUint8, dst, size)
	if err != nil {
		return trial{}, err
	}
	from, err := e.filled(d, core.TypeUint8, src, size)
	if err != nil {
		return trial{}, err
	}
	t := trial{bytes: size, own: timed(func(n int) error {
		for range n {
			if err := d.Copy(e.ctx, s, to, from); err != nil {
				return err
			}
		}
		return s.Synchronize(e.ctx)
	})}
	if id.Type != core.DeviceCUDA {
		return t, nil
	}
	bare := baseline{name: bareLoop}
	loop, err := barecuda.Open(int(id.Index))
	if err != nil {
		bare.reason = err.Error()
	} else {
		e.cleanup(loop.Close)
		bare.sample = func(n int) (time.Duration, error) {
			return loop.Copy(address(to), address(from), size, n)
		}
	}
	t.baselines = []baseline{bare}
	return t, nil
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

// handoff writes to memory on a stream of its device, and has the other device's stream wait for that.
func (p pair) handoff() (trial, error) {
	kind, way, err := p.shareable(p.bytes(1 << 20))
	if err != nil {
		return trial{}, err
	}
	from, err := p.env.stream(p.from)
	if err != nil {
		return trial{}, err
	}
	src, err := p.filled(p.from, core.TypeUint8, kind, p.bytes(1<<20))
	if err != nil {
		return trial{}, err
	}
	content, err := p.filled(p.from, core.TypeUint8, core.AllocOptions{}, p.bytes(1<<20))
	if err != nil {
		return trial{}, err
	}
	move := func() (spent time.Duration, err error) {
		if err := p.from.Copy(p.ctx, from, src, content); err != nil {
			return 0, err
		}
		start := time.Now()
		t, _, err := p.move(src, exchange.Options{Copy: exchange.Never, SourceStream: from})
		spent = time.Since(start)
		if err == nil {
			err = t.Close()
		}
		if err == nil {
			err = p.stream.Synchronize(p.ctx)
		}
		return spent, err
	}
	if _, err := move(); err != nil { // the first one opens the memory and the semaphore
		return trial{}, err
	}
	return trial{way: way, own: func(n int) (spent time.Duration, err error) {
		for range n {
			one, err := move()
			spent += one
			if err != nil {
				return spent, err
			}
		}
		return spent, nil
	}}, nil
}
