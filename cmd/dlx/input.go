package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/dlx-go/dlx/tensorfile"
)

// standardInput is the argument that stands for standard input.
const standardInput = "-"

// input is an opened tensor file.
type input struct {
	*tensorfile.File
	bytes int64 // of the file
}

// open opens a tensor file, or reads standard input to its end. The tensor of an .npy file from
// standard input is named "stdin". The caller closes the file.
func (a *app) open(ctx context.Context, path string, opts ...tensorfile.OpenOption) (input, error) {
	if path == standardInput {
		data, err := readAll(ctx, a.stdin)
		if err != nil {
			return input{}, err
		}
		f, err := tensorfile.Parse(data, "stdin", opts...)
		return input{f, int64(len(data))}, err
	}
	f, err := tensorfile.Open(path, opts...)
	var system *fs.PathError
	switch {
	case errors.As(err, &system): // its text already names the file and the reason
		return input{}, system
	case err != nil:
		return input{}, err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return input{}, errors.Join(err, f.Close())
	}
	return input{f, stat.Size()}, nil
}

// readAll reads r to its end, or until ctx ends.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type outcome struct {
		data []byte
		err  error
	}
	read := make(chan outcome, 1)
	go func() {
		data, err := io.ReadAll(r)
		read <- outcome{data, err}
	}()
	select {
	case o := <-read:
		if o.err != nil {
			return nil, fmt.Errorf("reading standard input: %w", o.err)
		}
		return o.data, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
