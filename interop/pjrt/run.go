//go:build cgo && unix

package pjrt

import (
	"context"
	"errors"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
	xla "github.com/gomlx/go-xla/pjrt"
)

// Run executes a program of a client on tensors, in order with other work on them, and returns its results as tensors.
// Nothing is copied. It blocks until the last writes to the inputs are done, or returns ctx's error, and until the
// program has ended. The caller closes the results.
//
// Run fails as NewView and Tensor do, and with core.ErrInvalid if the program fails.
func Run(ctx context.Context, client *xla.Client, program *xla.LoadedExecutable, inputs ...*core.Tensor) (results []*core.Tensor, err error) {
	if program == nil {
		return nil, core.Errorf(core.ErrInvalid, apiName, "Run", "the program is nil")
	}
	defer func() { // after the views are closed
		if err != nil {
			closeAll(results)
			results = nil
		}
	}()
	buffers := make([]*xla.Buffer, 0, len(inputs))
	for _, t := range inputs {
		v, viewErr := NewView(ctx, client, t)
		if viewErr != nil {
			return nil, viewErr
		}
		defer func() { err = errors.Join(err, v.Close()) }()
		buffers = append(buffers, v.Buffer())
	}
	err = stream.Do(ctx, nil, inputs, func() error {
		outputs, err := program.Execute(buffers...).Done()
		if err != nil {
			return failed("PJRT_LoadedExecutable_Execute", err)
		}
		results, err = tensors(outputs)
		return err
	})
	return results, err
}

// tensors makes tensors of all buffers, or of none. It takes over the buffers.
func tensors(buffers []*xla.Buffer) ([]*core.Tensor, error) {
	results := make([]*core.Tensor, 0, len(buffers))
	for i, b := range buffers {
		t, err := Tensor(b)
		if err != nil {
			closeAll(results)
			for _, b := range buffers[i:] {
				_ = b.Destroy() // err says more
			}
			return nil, err
		}
		results = append(results, t)
	}
	return results, nil
}

func closeAll(tensors []*core.Tensor) {
	for _, t := range tensors {
		t.Close()
	}
}
