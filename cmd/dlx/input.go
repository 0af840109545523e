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
	bytes int64 // of the file, or of all files of an index or a folder
}

// open opens a tensor file, an index or a folder, or reads standard input to its end. The tensor of an .npy file from
// standard input is named "stdin". The caller closes the file.
func (a *app) open(ctx context.Context, path string, options tensorfile.OpenOptions) (input, error) {
	if path == standardInput {
		data, err := readAll(ctx, a.stdin)
		if err != nil {
			return input{}, err
		}
		f, err := tensorfile.Parse(data, "stdin", options)
		return input{f, int64(len(data))}, err
	}
	f, err := tensorfile.Open(path, options)
	if err != nil {
		return input{}, plainError(err, path)
	}
	size, err := sizeOf(path)
	if err != nil {
		return input{}, errors.Join(err, f.Close())
	}
	return input{f, size}, nil
}

// sizeOf returns the number of bytes of the files of tensors that path names.
func sizeOf(path string) (size int64, err error) {
	files, err := tensorfile.LoadFiles(path)
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		stat, err := os.Stat(file)
		if err != nil {
			return 0, err
		}
		size += stat.Size()
	}
	return size, nil
}

// plainError returns the system's error for the file at path in place of err, which wraps it: its text already names the
// file and the reason. The text of another error says why path needs that file.
func plainError(err error, path string) error {
	var system *fs.PathError
	if errors.As(err, &system) && system.Path == path {
		return system
	}
	return err
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
