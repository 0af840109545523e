package backendtest

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// deviceFile is a file of a device.
type deviceFile struct {
	core.DeviceFile
	device *device
}

func (d *device) OpenFile(ctx context.Context, file *os.File) (core.DeviceFile, error) {
	f, err := d.fake.OpenFile(ctx, file)
	if err != nil {
		return nil, err
	}
	return &deviceFile{f, d}, nil
}

func (f *deviceFile) ReadAt(ctx context.Context, dst *core.Tensor, offset int64) error {
	if h := f.device.hooks.readAt; h != nil {
		return h(f.DeviceFile, ctx, dst, offset)
	}
	return f.DeviceFile.ReadAt(ctx, dst, offset)
}

var fileMutants = []mutant{
	{
		name: "reads from another place of the file", fails: "file/reads", says: "a copy of what was read", options: coretest.Options{Files: true},
		hooks: hooks{readAt: func(f core.DeviceFile, ctx context.Context, dst *core.Tensor, offset int64) error {
			return f.ReadAt(ctx, dst, offset&^511) // whole sectors only
		}},
	},
	{
		name: "takes the end of the file for the end of the read", fails: "file/refused", says: "past the end", options: coretest.Options{Files: true},
		hooks: hooks{readAt: func(f core.DeviceFile, ctx context.Context, dst *core.Tensor, offset int64) error {
			err := f.ReadAt(ctx, dst, offset)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}},
	},
	{
		name: "reads nothing after Close", fails: "file/close", says: "ReadAt after Close", options: coretest.Options{Files: true},
		hooks: hooks{readAt: func(f core.DeviceFile, ctx context.Context, dst *core.Tensor, offset int64) error {
			err := f.ReadAt(ctx, dst, offset)
			if errors.Is(err, core.ErrClosed) {
				return nil
			}
			return err
		}},
	},
}
