//go:build cuda && vulkan && linux && cgo

package main

// #include "raw.h"
import "C"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// sharingExperiments move tensors between CUDA and Vulkan without a copy.
func sharingExperiments() []experiment {
	var list []experiment
	for _, size := range []struct {
		name  string
		bytes int64
	}{{"2MiB", 2 << 20}, {"1GiB", 1 << 30}, {"6GiB", 6 << 30}} {
		for _, toCUDA := range []bool{false, true} {
			name := "cuda_to_vulkan/"
			if toCUDA {
				name = "vulkan_to_cuda/"
			}
			list = append(list, experiment{
				name:  name + size.name,
				about: "one buffer of both APIs, without a copy, and whether each sees what the other wrote",
				limit: 60 * time.Second,
				do: func(r *reporter) error {
					return examineSharing(r, size.bytes, toCUDA)
				},
			})
		}
	}
	return list
}

// pair is a CUDA device and the Vulkan device of the same card, with a stream of each.
type pair struct {
	cuda, vulkan     core.Device
	onCUDA, onVulkan core.Stream
}

func (r *reporter) openPair(ctx context.Context) (p pair, err error) {
	registry := all.New()
	if p.cuda, err = registry.Open(ctx, core.DeviceID{Type: core.DeviceCUDA}); err != nil {
		return p, skip(err.Error())
	}
	b, err := registry.Backend("vulkan")
	if err != nil {
		return p, skip(err.Error())
	}
	devices, err := b.Devices(ctx)
	if err != nil {
		return p, skip(err.Error())
	}
	for _, d := range devices {
		if d.UUID == p.cuda.Properties().UUID && p.vulkan == nil {
			if p.vulkan, err = b.Open(ctx, d.ID); err != nil {
				return p, err
			}
		}
	}
	if p.vulkan == nil {
		return p, skip("no device of Vulkan has the UUID of CUDA's")
	}
	if p.onCUDA, err = p.cuda.NewStream(ctx); err != nil {
		return p, err
	}
	p.onVulkan, err = p.vulkan.NewStream(ctx)
	return p, err
}

// edge is how many bytes at both ends of the memory are written and compared.
const edge = 64 << 10

// examineSharing has the first device write, the second one copy the end of the memory to its start, and the first one
// read that.
func examineSharing(r *reporter, size int64, toCUDA bool) error {
	if _, err := r.openCUDA(); err != nil { // says what the card is
		return err
	}
	if err := r.openVulkan(nil); err != nil {
		return err
	}
	if r.small {
		size = max(2*edge, size>>10)
	}
	ctx := context.Background()
	p, err := r.openPair(ctx)
	if err != nil {
		return err
	}
	from, to, first, second := p.cuda, p.vulkan, p.onCUDA, p.onVulkan
	if toCUDA {
		from, to, first, second = to, from, second, first
	}
	found := row{"bytes": size}
	start := time.Now()
	mark := func(name string) {
		found[name+"_ns"] = time.Since(start).Nanoseconds()
		start = time.Now()
	}
	src, err := core.Empty(ctx, from, core.TypeUint8, []int64{size}, exchange.AllocFor(from, to))
	if err != nil {
		if errors.Is(err, core.ErrOutOfMemory) || errors.Is(err, core.ErrNotSupported) {
			return skip("the memory cannot be allocated: " + err.Error())
		}
		return fmt.Errorf("allocating: %w", err)
	}
	mark("alloc")
	content := bytes.Repeat([]byte{1, 2, 3, 5, 7, 11, 13, 17}, edge/8)
	if err := write(ctx, from, first, src, size-edge, content); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	start = time.Now()
	opts := exchange.Options{Copy: exchange.Never, SourceStream: first, Stream: second}
	there, report, err := exchange.To(ctx, src, to, opts)
	if err != nil {
		return skip("the memory is not shared: " + err.Error())
	}
	mark("first_move")
	found["mechanism"], found["wait"] = report.Mechanism.String(), report.Wait.String()
	if err := copyEnd(ctx, to, second, there, size); err != nil {
		return fmt.Errorf("the other device's copy: %w", err)
	}
	back := make([]byte, edge)
	if err := read(ctx, from, src, back); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	found["right"] = bytes.Equal(back, content)
	start = time.Now()
	again, _, err := exchange.To(ctx, src, to, opts)
	if err != nil {
		return fmt.Errorf("moving again: %w", err)
	}
	mark("second_move")
	r.row(found)
	return errors.Join(again.Close(), there.Close(), src.Close())
}

func write(ctx context.Context, d core.Device, s core.Stream, t *core.Tensor, at int64, content []byte) error {
	part, err := t.Slice(0, at, at+int64(len(content)), 1)
	if err != nil {
		return err
	}
	defer part.Close()
	src, err := core.FromSlice(content)
	if err != nil {
		return err
	}
	defer src.Close()
	return d.Copy(ctx, s, part, src)
}

func read(ctx context.Context, d core.Device, t *core.Tensor, into []byte) error {
	part, err := t.Slice(0, 0, int64(len(into)), 1)
	if err != nil {
		return err
	}
	defer part.Close()
	dst, err := core.FromSlice(into)
	if err != nil {
		return err
	}
	defer dst.Close()
	return d.Copy(ctx, nil, dst, part)
}

// copyEnd copies the last bytes of a tensor to its start.
func copyEnd(ctx context.Context, d core.Device, s core.Stream, t *core.Tensor, size int64) error {
	end, err := t.Slice(0, size-edge, size, 1)
	if err != nil {
		return err
	}
	defer end.Close()
	start, err := t.Slice(0, 0, edge, 1)
	if err != nil {
		return err
	}
	defer start.Close()
	return d.Copy(ctx, s, start, end)
}
