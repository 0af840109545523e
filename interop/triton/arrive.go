package triton

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// errAnswer marks errors of reading an answer: the request has run.
var errAnswer = errors.New("the answer cannot be used")

// arrive makes tensors of an answer. If it fails, it closes those that it has made.
func (t *trip) arrive(ctx context.Context, a *answer) (_ *Result, err error) {
	result := &Result{Model: a.model, Version: a.version, Outputs: make(map[string]*core.Tensor, len(a.outputs)), Reports: t.inputs}
	defer func() {
		if err != nil {
			_ = result.Close()
			err = fmt.Errorf("%w: %w", errAnswer, err)
		}
	}()
	sizes := make(map[string]int64, len(a.outputs))
	for i := range a.outputs {
		out := &a.outputs[i]
		l, err := t.landingOf(out, result)
		if err != nil {
			return nil, err
		}
		dtype, size, err := checkOutput(out)
		if err != nil {
			return nil, err
		}
		report := Report{Name: out.name, Output: true, Bytes: size, Reason: l.reason}
		x, err := t.tensorOf(out, l, dtype, size, &report)
		if err != nil {
			return nil, err
		}
		if l.device != nil && x.Device() != l.device {
			moved, move, err := exchange.To(ctx, x, l.device, exchange.Options{})
			x.Close()
			if err != nil {
				return nil, err
			}
			x = moved
			report.BytesCopied += move.BytesCopied
		}
		report.Device = x.DeviceID()
		result.Outputs[out.name], sizes[out.name] = x, size
		result.Reports = append(result.Reports, report)
	}
	for _, l := range t.outputs {
		if result.Outputs[l.name] == nil {
			return nil, core.Errorf(core.ErrInvalid, backend, "Infer", "the answer has no output %q, which the request asked for", l.name)
		}
	}
	slices.SortFunc(result.Reports[len(t.inputs):], func(a, b Report) int { return strings.Compare(a.Name, b.Name) })
	t.client.remember(t.key, sizes, len(t.outputs) == 0)
	return result, nil
}

// landingOf returns where an output is to go.
func (t *trip) landingOf(out *received, so *Result) (*landing, error) {
	if so.Outputs[out.name] != nil || out.name == "" {
		return nil, core.Errorf(core.ErrInvalid, backend, "Infer", "the answer has an output %.200q for the second time, or without a name", out.name)
	}
	for _, l := range t.outputs {
		if l.name == out.name {
			return l, nil
		}
	}
	if len(t.outputs) > 0 {
		return nil, core.Errorf(core.ErrInvalid, backend, "Infer", "the answer has an output %.200q, which the request did not ask for", out.name)
	}
	reason := "the size is not known before the first answer: see Output.Size"
	if why := t.why(Shared); why != "" {
		reason = Shared.String() + ": " + why
	}
	return &landing{name: out.name, device: t.options.Device, reason: reason}, nil
}

// checkOutput returns the element type and the number of bytes of an output, if its description is one of a tensor.
func checkOutput(out *received) (core.DType, int64, error) {
	dtype, err := dtypeOf("Infer", out.name, out.datatype)
	if err != nil {
		return core.DType{}, 0, err
	}
	l, err := core.NewLayout(out.shape...)
	if err != nil {
		return core.DType{}, 0, core.Errorf(err, backend, "Infer", "the shape of output %q", out.name)
	}
	size, err := dtype.Size(l.NumElements(), false)
	if err != nil {
		return core.DType{}, 0, core.Errorf(err, backend, "Infer", "the shape of output %q", out.name)
	}
	return dtype, size, nil
}

// tensorOf returns a tensor with the elements of an output, where they arrived. The caller closes it.
func (t *trip) tensorOf(out *received, l *landing, dtype core.DType, size int64, report *Report) (*core.Tensor, error) {
	if s := l.slot; s != nil && len(out.raw) == 0 {
		// Triton's gRPC answers without a place; an answer with one must name ours.
		if at := out.at; at != nil && (at.region != s.region.name || at.offset != s.offset() || at.size != size) || size > s.size {
			return nil, core.Errorf(core.ErrLayout, backend, "Infer",
				"output %q of %s and shape %v takes %d bytes; the server says that it is at %v, and it was asked to write up to %d bytes to %s at %d", out.name, out.datatype, out.shape, size, at, s.size, s.region.name, s.offset())
		}
		if size > 0 {
			x, err := s.tensor(size, dtype, out.shape)
			if err != nil {
				return nil, err
			}
			l.slot = nil // owned by x
			report.Mechanism = mechanismFor(s.region.class.device)
			return x, nil
		}
	} else if out.at != nil {
		return nil, core.Errorf(core.ErrInvalid, backend, "Infer", "the server says that output %q is in shared memory, where the request did not want it, or that it is in the message, too", out.name)
	} else if s != nil {
		report.Reason = "the server put the output into the message"
	}
	report.Mechanism = Raw
	if int64(len(out.raw)) != size {
		return nil, core.Errorf(core.ErrLayout, backend, "Infer", "output %q of %s and shape %v takes %d bytes, and %d came", out.name, out.datatype, out.shape, size, len(out.raw))
	}
	raw := out.raw
	if item, _ := dtype.ItemSize(); size > 0 && addressOf(raw)%uintptr(item) != 0 {
		aligned := make([]uint64, (size+7)/8)
		raw = bytesOf(aligned)[:size]
		copy(raw, out.raw)
		report.BytesCopied += size
	}
	return onBytes(raw, dtype, out.shape)
}

// remember records the sizes of outputs, for the next request. all says that the model has no others.
func (c *Client) remember(key modelKey, sizes map[string]int64, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const mostModels = 10_000 // a program that makes up versions must not fill the memory
	known, ok := c.models[key]
	if !ok {
		if len(c.models) >= mostModels {
			clear(c.models)
		}
		known.sizes = make(map[string]int64, len(sizes))
	}
	for name, size := range sizes {
		known.sizes[name] = max(known.sizes[name], size)
	}
	known.all = known.all || all
	c.models[key] = known
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}
