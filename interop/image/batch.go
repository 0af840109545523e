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
// with the pixels of images of one size. The caller closes it. Batch returns when all pixels are converted, which happens
// where that moves fewer bytes, see core.ConvertScaled.
//
//	batch, err := dlximage.Batch(ctx, frames, gpu, dlximage.BatchOptions{Scale: []float32{1. / 255}})
//
// The pixels of *image.RGBA, NRGBA, Gray and Alpha are read in place, once, with their channels as they are: those of RGBA
// are multiplied by alpha, those of NRGBA are not. All other images, such as YCbCr, are first drawn as RGBA, and the result
// of that is read. Several goroutines do so at the same time, each with memory for one image: the methods of images, also
// of one that is listed twice, must be safe for simultaneous calls. Batch returns
//
//   - core.ErrInvalid if there are no images, or one is nil, if d is nil, if an option is not known or does not fit
//     the channels, or if drawing or measuring an image panics, as it does if its fields contradict each other;
//   - core.ErrLayout if the sizes differ, or an image has fewer channels than are taken, but more than one;
//   - core.ErrOutOfMemory if there is no memory to draw an image;
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
	b := &batch{options: o, images: images}
	for i := range images {
		if err := b.check(i); err != nil {
			return nil, core.Errorf(err, backend, call, "image %d", i)
		}
	}
	height, width, channels := int64(b.size.Y), int64(b.size.X), int64(o.Channels)
	shape := []int64{int64(len(images)), channels, height, width}
	if o.Order == NHWC {
		shape = []int64{int64(len(images)), height, width, channels}
	}
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
	images  []image.Image
	size    image.Point // of each
}

// inPlace returns how many channels an image has whose pixels are read in place; 0 if it is drawn.
func inPlace(m image.Image) int64 {
	switch m.(type) {
	case *image.RGBA, *image.NRGBA:
		return 4
	case *image.Gray, *image.Alpha:
		return 1
	}
	return 0
}

// check checks of an image what can be checked before its pixels are read.
func (b *batch) check(i int) error {
	m := b.images[i]
	if missing(m) {
		return isNil("Batch")
	}
	size, err := measure(m)
	if err != nil {
		return err
	}
	if i == 0 {
		b.size = size
	}
	switch {
	case size != b.size:
		return core.Errorf(core.ErrLayout, backend, "Batch", "it has %v pixels, and the first has %v", size, b.size)
	case b.options.Channels == 1 && inPlace(m) != 1:
		return core.Errorf(core.ErrLayout, backend, "Batch", "the image has 4 channels, and one is to be taken: convert it to image.Gray")
	}
	return nil
}

// measure is sizeOf for an image whose method may panic.
func measure(m image.Image) (size image.Point, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = core.Errorf(core.ErrInvalid, backend, "Batch", "the bounds of %T panicked: %v", m, p)
		}
	}()
	return sizeOf(m), nil
}

// pixels returns the pixels of an image with the axes of the result. The caller closes it. An image that is not read in place
// is drawn into *room, which is for the next one when the result was read.
func (b *batch) pixels(m image.Image, room **image.RGBA) (t *core.Tensor, err error) {
	has := inPlace(m)
	if has == 0 {
		if *room, err = drawInto(*room, m); err != nil {
			return nil, err
		}
		m, has = *room, 4
	}
	if t, err = From(m); err != nil {
		return nil, err
	}
	replace := func(v *core.Tensor, e error) {
		_ = t.Close()
		t, err = v, e
	}
	height, width, channels := int64(b.size.Y), int64(b.size.X), int64(b.options.Channels)
	if has == 1 {
		replace(t.Broadcast(height, width, channels))
	} else {
		replace(t.Slice(2, 0, channels, 1))
	}
	if err == nil && b.options.Mirror && width > 1 {
		replace(t.Slice(1, width-1, -1, -1))
	}
	if err == nil && b.options.Order == NCHW {
		replace(t.Permute(2, 0, 1))
	}
	return t, err
}

// deviceWorkers bounds how many images are drawn or copied to a device at the same time. One draws an image, which takes several
// times as long as its copy, while others copy theirs, and each also has memory on the device.
const deviceWorkers = 4

// fill converts the images into their parts of t, several at a time.
func (b *batch) fill(ctx context.Context, t *core.Tensor) error {
	scaling := core.Scaling{Scale: b.options.Scale, Offset: b.options.Offset}
	if b.options.Order == NHWC {
		scaling.Axis = 2
	}
	one := func(i int, room **image.RGBA) error {
		pixels, err := b.pixels(b.images[i], room)
		if err != nil {
			return core.Errorf(err, backend, "Batch", "image %d", i)
		}
		defer pixels.Close()
		part, err := t.Index(0, int64(i))
		if err != nil {
			return err
		}
		defer part.Close()
		return core.ConvertScaled(ctx, part, pixels, scaling)
	}
	workers := min(runtime.GOMAXPROCS(0), len(b.images))
	if !t.DeviceID().Type.HostAccessible() {
		workers = min(workers, deviceWorkers)
	}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	work := func() {
		var err error = core.Errorf(core.ErrInvalid, backend, "Batch", "drawing an image ended its goroutine")
		defer func() {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		}()
		var room *image.RGBA
		for i := next.Add(1) - 1; i < int64(len(b.images)) && failed.Load() == nil; i = next.Add(1) - 1 {
			if e := one(int(i), &room); e != nil {
				failed.CompareAndSwap(nil, &e)
			}
		}
		err = nil
	}
	var wait sync.WaitGroup
	for range workers { // none is the goroutine of the caller, which an image must not end
		wait.Go(work)
	}
	wait.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
