//go:build cuda && vulkan && linux && cgo

package main

// #include "raw.h"
import "C"

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

func copyExperiments() []experiment {
	return []experiment{
		{"strided", "strided copies on the card beside a contiguous one", 60 * time.Second, examineStrided},
		{"strided_torch", "the same copies by PyTorch", 90 * time.Second, func(r *reporter) error {
			if _, err := r.openCUDA(); err != nil { // says what the card is
				return err
			}
			list, err := json.Marshal(layouts(r.small))
			if err != nil {
				return err
			}
			return r.torch("strided", string(list))
		}},
		{"pageable", "copies of memory that is not pinned: by the driver, by dlx, and of pinned memory", 90 * time.Second, examinePageable},
		{"full_pool", "whether others can allocate while freed memory lies in the pool of dlx", 60 * time.Second, examinePool},
	}
}

// layout is a strided copy: an array of a shape, of which the axes are permuted or every second element of one is taken,
// into a contiguous one.
type layout struct {
	Name    string  `json:"name"`
	Type    string  `json:"type"`
	Shape   []int64 `json:"shape"`
	Permute []int   `json:"permute,omitempty"`
	Step    *int    `json:"step,omitempty"` // the axis
}

func layouts(small bool) []layout {
	side, images, picture := int64(8192), int64(256), int64(512)
	if small {
		side, images, picture = 64, 2, 16
	}
	first, second := 0, 1
	return []layout{
		{Name: "contiguous", Type: "float32", Shape: []int64{side, side}},
		{Name: "every second row", Type: "float32", Shape: []int64{side, side}, Step: &first},
		{Name: "every second element", Type: "float32", Shape: []int64{side, side}, Step: &second},
		{Name: "every second element", Type: "uint8", Shape: []int64{2 * side, 2 * side}, Step: &second},
		{Name: "transpose", Type: "uint8", Shape: []int64{2 * side, 2 * side}, Permute: []int{1, 0}},
		{Name: "transpose", Type: "float16", Shape: []int64{side, 2 * side}, Permute: []int{1, 0}},
		{Name: "transpose", Type: "float32", Shape: []int64{side, side}, Permute: []int{1, 0}},
		{Name: "transpose", Type: "float64", Shape: []int64{side / 2, side}, Permute: []int{1, 0}},
		{Name: "NHWC to NCHW", Type: "uint8", Shape: []int64{images, picture, picture, 3}, Permute: []int{0, 3, 1, 2}},
		{Name: "NHWC to NCHW", Type: "float32", Shape: []int64{images / 2, picture, picture, 3}, Permute: []int{0, 3, 1, 2}},
		{Name: "NCHW to NHWC", Type: "uint8", Shape: []int64{images, 3, picture, picture}, Permute: []int{0, 2, 3, 1}},
		{Name: "NCHW to NHWC", Type: "float32", Shape: []int64{images / 2, 3, picture, picture}, Permute: []int{0, 2, 3, 1}},
	}
}

// of makes the view of an array.
func (l layout) of(base *core.Tensor) (*core.Tensor, error) {
	switch {
	case l.Permute != nil:
		return base.Permute(l.Permute...)
	case l.Step != nil:
		return base.Slice(*l.Step, 0, l.Shape[*l.Step], 2)
	}
	return base.Share()
}

func (r *reporter) openDevice(ctx context.Context) (*card, core.Device, core.Stream, error) {
	c, err := r.openCUDA()
	if err != nil {
		return nil, nil, nil, err
	}
	d, err := all.New().Open(ctx, core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := d.NewStream(ctx)
	return c, d, s, err
}

const repeats = 7

func examineStrided(r *reporter) error {
	runtime.LockOSThread()
	ctx := context.Background()
	_, d, s, err := r.openDevice(ctx)
	if err != nil {
		return err
	}
	timer, err := cuda.NewTimer(ctx, d)
	if err != nil {
		return err
	}
	for _, l := range layouts(r.small) {
		if err := r.strided(ctx, d, s, timer, l); err != nil {
			r.row(row{"layout": l.Name, "type": l.Type, "missing": err.Error()})
			if errors.Is(err, core.ErrDeviceLost) {
				return err
			}
		}
	}
	return nil
}

func (r *reporter) strided(ctx context.Context, d core.Device, s core.Stream, timer *cuda.Timer, l layout) error {
	dtype, err := core.ParseDType(l.Type)
	if err != nil {
		return err
	}
	base, err := core.Empty(ctx, d, dtype, l.Shape, core.AllocOptions{})
	if err != nil {
		return err
	}
	defer base.Close()
	src, err := l.of(base)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := core.Empty(ctx, d, dtype, src.Shape(), core.AllocOptions{})
	if err != nil {
		return err
	}
	defer dst.Close()
	var times []int64
	for i := range repeats + 1 { // the first one loads the kernel
		if err := errors.Join(timer.Start(s), d.Copy(ctx, s, dst, src), timer.Stop(s)); err != nil {
			return err
		}
		took, err := timer.Elapsed(ctx)
		if err != nil {
			return err
		}
		if i > 0 {
			times = append(times, took.Nanoseconds())
		}
	}
	slices.Sort(times)
	r.row(row{"layout": l.Name, "type": l.Type, "shape": l.Shape, "bytes": src.NumBytes(), "median_ns": times[repeats/2],
		"min_ns": times[0], "gb_per_s": rate(src.NumBytes(), times[repeats/2])})
	return nil
}

// torch runs the script, whose lines are rows, or begin with "skipped: ".
func (r *reporter) torch(args ...string) error {
	switch {
	case r.python == "":
		return skip("no interpreter of Python was given")
	case r.script == "":
		return skip("first_session_torch.py was not given")
	}
	out, err := exec.Command(r.python, append([]string{r.script}, args...)...).Output()
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if reason, skipped := strings.CutPrefix(line, "skipped: "); skipped {
			return skip(reason)
		}
		var found row
		if err := strictjson.Unmarshal([]byte(line), &found); err != nil {
			return fmt.Errorf("%s printed %q", r.script, line)
		}
		r.row(found)
	}
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		lines := strings.Split(strings.TrimSpace(string(failed.Stderr)), "\n")
		return fmt.Errorf("%s: %w: %s", r.python, err, lines[len(lines)-1])
	}
	if err != nil {
		return skip(err.Error())
	}
	return nil
}

func examinePageable(r *reporter) error {
	runtime.LockOSThread()
	ctx := context.Background()
	_, d, s, err := r.openDevice(ctx)
	if err != nil {
		return err
	}
	sizes := []int64{64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30}
	if r.small {
		sizes = []int64{64 << 10, 1 << 20}
	}
	for _, size := range sizes {
		if err := r.pageable(ctx, d, s, size); err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
	}
	return nil
}

func (r *reporter) pageable(ctx context.Context, d core.Device, s core.Stream, size int64) error {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i)
	}
	host, err := core.FromSlice(content)
	if err != nil {
		return err
	}
	defer host.Close()
	device, err := core.Empty(ctx, d, core.TypeUint8, []int64{size}, core.AllocOptions{})
	if err != nil {
		return err
	}
	defer device.Close()
	pinned, err := core.Empty(ctx, d, core.TypeUint8, []int64{size}, core.AllocOptions{Type: core.DeviceCUDAHost})
	if err != nil {
		return err
	}
	defer pinned.Close()
	address := func(t *core.Tensor) C.uint64_t {
		p, failed := t.Address()
		err = cmp.Or(err, failed)
		return C.uint64_t(p)
	}
	onCard, onHost, onPinned := address(device), C.uint64_t(uintptr(unsafe.Pointer(&content[0]))), address(pinned)
	if err != nil {
		return err
	}
	bare := func(dst, src C.uint64_t) func() (int64, error) {
		return func() (int64, error) {
			var ns C.int64_t
			err := cudaError(C.fs_cuda_copies(dst, src, C.uint64_t(size), 1, &ns))
			return int64(ns), err
		}
	}
	byDLX := func(dst, src *core.Tensor, on core.Stream) func() (int64, error) {
		return func() (int64, error) {
			start := time.Now()
			err := d.Copy(ctx, on, dst, src)
			if err == nil && on != nil {
				err = on.Synchronize(ctx)
			}
			return time.Since(start).Nanoseconds(), err
		}
	}
	ways := []struct {
		direction, by string
		once          func() (int64, error)
		times         []int64
	}{
		{direction: "upload", by: "cuMemcpyAsync, pageable", once: bare(onCard, onHost)},
		{direction: "upload", by: "cuMemcpyAsync, pinned", once: bare(onCard, onPinned)},
		{direction: "upload", by: "dlx, on a stream", once: byDLX(device, host, s)},
		{direction: "upload", by: "dlx, waiting", once: byDLX(device, host, nil)},
		{direction: "download", by: "cuMemcpyAsync, pageable", once: bare(onHost, onCard)},
		{direction: "download", by: "cuMemcpyAsync, pinned", once: bare(onPinned, onCard)},
		{direction: "download", by: "dlx, on a stream", once: byDLX(host, device, s)},
		{direction: "download", by: "dlx, waiting", once: byDLX(host, device, nil)},
	}
	for round := range repeats + 1 { // by turns; the first round is not counted
		for i := range ways {
			ns, err := ways[i].once()
			if err != nil {
				return fmt.Errorf("%s by %s: %w", ways[i].direction, ways[i].by, err)
			}
			if round > 0 {
				ways[i].times = append(ways[i].times, ns)
			}
		}
	}
	for _, w := range ways {
		slices.Sort(w.times)
		r.row(row{"direction": w.direction, "by": w.by, "bytes": size, "median_ns": w.times[repeats/2], "min_ns": w.times[0],
			"gb_per_s": rate(size, w.times[repeats/2])})
	}
	return nil
}

// examinePool fills the pool with freed memory, and then allocates more than the card has left.
func examinePool(r *reporter) error {
	runtime.LockOSThread()
	ctx := context.Background()
	c, d, _, err := r.openDevice(ctx)
	if err != nil {
		return err
	}
	pool, ok := core.As[core.PoolController](d)
	if !ok {
		return skip("the device has no pool")
	}
	block := int64(256 << 20)
	if r.small {
		block = 1 << 20
	}
	var held []core.Memory
	for total := int64(0); total < int64(c.unused)*9/10-block; total += block {
		m, err := d.Alloc(ctx, block, core.AllocOptions{})
		if err != nil {
			r.row(row{"filling": err.Error(), "bytes": total})
			break
		}
		held = append(held, m)
	}
	for _, m := range held {
		m.Free()
	}
	r.row(row{"pool": "filled and freed", "stats": pool.PoolStats()})
	want := c.unused / 16 * 15 // there is room for it only without what the pool keeps, at most an eighth of the card
	allocate := func(when string) {
		var p C.uint64_t
		start := time.Now()
		code := C.fs_cuda_alloc(C.uint64_t(want), &p)
		found := row{"cuMemAlloc": cudaCode(code), "when": when, "bytes": want, "ns": time.Since(start).Nanoseconds()}
		if code == 0 {
			found["cuMemFree"] = cudaCode(C.fs_cuda_free(p))
		}
		r.row(found)
	}
	torch := func(when string) {
		if err := r.torch("empty", strconv.FormatUint(want, 10), when); err != nil {
			r.row(row{"torch.empty": "not tried: " + err.Error(), "when": when})
		}
	}
	allocate("the pool is full")
	torch("the pool is full")
	start := time.Now()
	pool.TrimPool()
	r.row(row{"pool": "trimmed", "ns": time.Since(start).Nanoseconds(), "stats": pool.PoolStats()})
	allocate("the pool is trimmed")
	torch("the pool is trimmed")
	return nil
}
