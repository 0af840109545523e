package benchmarks

import (
	"context"
	"errors"
	"strconv"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// A model has many tensors, most of them small.
const (
	manyTensors = 1000
	manyBytes   = 4 << 10 // of each
)

// manyCase measures exchange.ToAll of many small tensors of the host.
func manyCase(id core.DeviceID) Case {
	return Case{
		Name:        "many/" + id.String() + "/" + strconv.Itoa(manyTensors) + "x" + binarySize(manyBytes),
		Description: "exchange.ToAll of small tensors in Go's memory, copied into new memory, until they may be read",
		Family:      "many", Kind: Bandwidth, From: Ends{core.CPU}, To: Ends{id}, Size: manyBytes,
		Target: Target{Measure: Speed, Limit: 1, Baseline: oneByOne},
		setup:  func(e *env) (trial, error) { return manyTo(e, id) },
	}
}

const oneByOne = "To of each"

func manyTo(e *env, id core.DeviceID) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	srcs := make([]*core.Tensor, manyTensors)
	for i := range srcs {
		content := make([]byte, manyBytes)
		fill(content, sentSeed+uint64(i))
		if srcs[i], err = e.keep(core.FromSlice(content)); err != nil {
			return trial{}, err
		}
	}
	always := exchange.Options{Copy: exchange.Always}
	together := func() error {
		results, _, err := exchange.ToAll(e.ctx, srcs, d, always)
		if err != nil {
			return err
		}
		return readyAndClose(e.ctx, results)
	}
	alone := func() error {
		results := make([]*core.Tensor, 0, len(srcs))
		for _, src := range srcs {
			x, _, err := exchange.To(e.ctx, src, d, always)
			if err != nil {
				_ = readyAndClose(e.ctx, results)
				return err
			}
			results = append(results, x)
		}
		return readyAndClose(e.ctx, results)
	}
	verify := func() (m *Mismatch, err error) {
		results, _, err := exchange.ToAll(e.ctx, srcs, d, always)
		if err != nil {
			return nil, err
		}
		for i, x := range results {
			if m == nil && err == nil {
				seed := sentSeed + uint64(i)
				m, err = e.check(arrivedAt(d, x), seed, seed+beforeSeed)
			}
		}
		return m, errors.Join(err, readyAndClose(e.ctx, results))
	}
	return trial{
		bytes: int64(len(srcs)) * manyBytes, own: repeat(together), verify: verify,
		baselines: []baseline{{name: oneByOne, sample: repeat(alone)}},
	}, nil
}

// readyAndClose waits for tensors and closes them. It returns the first error of their work.
func readyAndClose(ctx context.Context, list []*core.Tensor) (err error) {
	for _, t := range list {
		if e := t.WaitReady(ctx); err == nil {
			err = e
		}
		_ = t.Close()
	}
	return err
}
