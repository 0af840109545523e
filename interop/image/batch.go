package image

import (
	"context"
	"image"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// Order is the order of the axes of a batch.
type Order uint8

// The orders. N counts the images, C the channels, H the rows and W the columns.
const (
	NCHW Order = iota
	NHWC
)

// BatchOptions say what Batch makes of the pixels. The zero value makes planes of float32 from 0 to 255.
type BatchOptions struct {
	// DType is the type of the elements. The zero value stands for float32.
	DType core.DType
	// Order is the order of the axes.
	Order Order
	// Channels is how many channels of each image are taken: 1, 3 or 4. 0 stands for 3: red, green and blue.
	// An image with one channel gives it to each.
	Channels int
	// Scale and Offset have one number for each channel, or one for all: x becomes x*Scale + Offset, as
	// core.Scaling says. For pixels from 0 to 1, Scale is 1/255.
	Scale, Offset []float32
	// Mirror reverses the columns.
	Mirror bool
	// Alloc is used to allocate the memory.
	Alloc core.AllocOptions
}

// Batch returns a row-major tensor of shape (images, channels, height, width), or that of another order, on device d
// with the pixels of images of one size. The caller closes it. Every pixel is read once: it is converted where that
// moves fewer bytes, see core.ConvertScaled, and Batch returns when all are.
//
//	batch, err := dlximage.Batch(ctx, frames, gpu, dlximage.BatchOptions{Scale: []float32{1. / 255}})
//
// Images that From takes are read in place, with their channels as they are: those of RGBA are multiplied by
// alpha, those of NRGBA are not. All others, such as YCbCr, are drawn as RGBA first. Batch returns
//
//   - core.ErrInvalid if there are no images, or one is nil, if d is nil, or if an option is not known or does not fit
//     the channels;
//   - core.ErrLayout if the sizes differ, or an image has fewer channels than are taken, but more than one;
//   - the errors of From, core.Empty and core.ConvertScaled.
func Batch(ctx context.Context, images []image.Image, d core.Device, o BatchOptions) (*core.Tensor, error) {
	const call = "Batch"
	if o.DType == (core.DType{}) {
		o.DType = core.TypeFloat32
	}
	if o.Channels == 0 {
		o.Channels = 3
	}
	switch {
	case len(images) == 0:
		return nil, core.Errorf(core.ErrInvalid, backend, call, "there are no images")
	case d == nil:
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the device is nil")
	case o.Order > NHWC:
		return nil, core.Errorf(core.ErrInvalid, backend, call, "BatchOptions.Order is %d, which is not a value of its type", o.Order)
	case o.Channels != 1 && o.Channels != 3 && o.Channels != 4:
		return nil, core.Errorf(core.ErrInvalid, backend, call, "BatchOptions.Channels is %d: pass 1, 3 or 4", o.Channels)
	}
	b := &batch{options: o, pixels: make([]*core.Tensor, 0, len(images))}
	defer b.close()
	for i, m := range images {
		if err := b.add(m); err != nil {
			return nil, core.Errorf(err, backend, call, "image %d", i)
		}
	}
	shape := append([]int64{int64(len(images))}, b.pixels[0].Shape()...)
	t, err := core.Empty(ctx, d, o.DType, shape, o.Alloc)
	if err != nil {
		return nil, err
	}
	if err := b.fill(ctx, t); err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

// batch is the images of a call of Batch.
type batch struct {
	options BatchOptions
	pixels  []*core.Tensor // of each image, with the axes of the result
}

func (b *batch) close() {
	for _, t := range b.pixels {
		_ = t.Close()
	}
}

// add adds the pixels of an image.
func (b *batch) add(m image.Image) error {
	var t *core.Tensor
	var err error
	switch m.(type) {
	case *image.RGBA, *image.NRGBA, *image.Gray, *image.Alpha:
		t, err = From(m)
	default:
		t, err = Copy(m)
	}
	if err != nil {
		return err
	}
	channels := int64(b.options.Channels)
	height, width, has := t.Layout().Dim(0), t.Layout().Dim(1), t.Layout().Dim(2)
	replace := func(v *core.Tensor, e error) {
		_ = t.Close()
		t, err = v, e
	}
	switch {
	case has == 1:
		replace(t.Broadcast(height, width, channels))
	case channels == 1:
		_ = t.Close()
		return core.Errorf(core.ErrLayout, backend, "Batch", "the image has %d channels, and one is to be taken: convert it to image.Gray", has)
	default:
		replace(t.Slice(2, 0, channels, 1))
	}
	if err == nil && b.options.Mirror && width > 1 {
		replace(t.Slice(1, width-1, -1, -1))
	}
	if err == nil && b.options.Order == NCHW {
		replace(t.Permute(2, 0, 1))
	}
	if err != nil {
		return err
	}
	b.pixels = append(b.pixels, t)
	if first := b.pixels[0]; !t.Layout().SameShape(first.Layout()) {
		return core.Errorf(core.ErrLayout, backend, "Batch", "it is not of the size of the first: the shapes are %v and %v", t.Shape(), first.Shape())
	}
	return nil
}

// fill converts the images into their parts of t, several at a time if the host does.
func (b *batch) fill(ctx context.Context, t *core.Tensor) error {
	scaling := core.Scaling{Scale: b.options.Scale, Offset: b.options.Offset}
	if b.options.Order == NHWC {
		scaling.Axis = 2
	}
	one := func(i int) error {
		part, err := t.Index(0, int64(i))
		if err != nil {
			return err
		}
		defer part.Close()
		return core.ConvertScaled(ctx, part, b.pixels[i], scaling)
	}
	workers := 1
	if t.DeviceID().Type.HostAccessible() {
		workers = min(runtime.GOMAXPROCS(0), len(b.pixels))
	}
	var next atomic.Int64
	errs := make([]error, workers)
	work := func(w int) {
		for i := next.Add(1) - 1; i < int64(len(b.pixels)) && errs[w] == nil; i = next.Add(1) - 1 {
			errs[w] = one(int(i))
		}
	}
	var wait sync.WaitGroup
	for w := range workers - 1 {
		wait.Go(func() { work(w + 1) })
	}
	work(0)
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
