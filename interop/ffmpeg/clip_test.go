//go:build cgo

package ffmpeg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/asticode/go-astiav"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/interop/ffmpeg/internal/avtest"
)

const clipWidth, clipHeight, clipFrames = 70, 46, 4

// clipPlane returns a plane of a frame of the clip: a pattern that moves.
func clipPlane(frame, plane int) []byte {
	width, height := clipWidth, clipHeight
	if plane > 0 {
		width, height = width/2, height/2
	}
	p := make([]byte, 0, width*height)
	for y := range height {
		for x := range width {
			p = append(p, byte(16+(x*3+y*5+frame*7+plane*40)%220))
		}
	}
	return p
}

// encoded returns a clip, compressed without loss, and what a decoder needs. Its frames are made of tensors.
func encoded() (packets []*astiav.Packet, parameters *astiav.CodecParameters, err error) {
	codec := astiav.FindEncoder(astiav.CodecIDFfv1)
	encoder := astiav.AllocCodecContext(codec)
	defer encoder.Free()
	encoder.SetWidth(clipWidth)
	encoder.SetHeight(clipHeight)
	encoder.SetPixelFormat(astiav.PixelFormatYuv420P)
	encoder.SetTimeBase(astiav.NewRational(1, 25))
	if err := encoder.Open(codec, nil); err != nil {
		return nil, nil, err
	}
	for i := range clipFrames + 1 {
		var f *astiav.Frame // nil: no more frames
		if i < clipFrames {
			if f, err = clipFrame(i); err != nil {
				return packets, nil, err
			}
			f.SetPts(int64(i))
		}
		err = encoder.SendFrame(f)
		if f != nil {
			f.Free()
		}
		for err == nil {
			p := astiav.AllocPacket()
			if err = encoder.ReceivePacket(p); err != nil {
				p.Free()
				break
			}
			packets = append(packets, p)
		}
		if !errors.Is(err, astiav.ErrEagain) && !errors.Is(err, astiav.ErrEof) {
			return packets, nil, err
		}
	}
	parameters = astiav.AllocCodecParameters()
	return packets, parameters, parameters.FromCodecContext(encoder)
}

// clipFrame returns a frame of tensors.
func clipFrame(number int) (*astiav.Frame, error) {
	var planes []*core.Tensor
	defer func() { closeAll(planes) }()
	for i := range 3 {
		rows, columns := int64(clipHeight), int64(clipWidth)
		if i > 0 {
			rows, columns = rows/2, columns/2
		}
		padded := make([]byte, rows*columns+16) // FFmpeg may read 16 bytes more
		copy(padded, clipPlane(number, i))
		whole, err := core.FromSlice(padded)
		if err != nil {
			return nil, err
		}
		defer whole.Close()
		part, err := whole.Slice(0, 0, rows*columns, 1)
		if err != nil {
			return nil, err
		}
		defer part.Close()
		t, err := part.Reshape(rows, columns)
		if err != nil {
			return nil, err
		}
		planes = append(planes, t)
	}
	return NewVideoFrame(context.Background(), astiav.PixelFormatYuv420P, clipWidth, clipHeight, planes...)
}

// decoded calls a function with every frame of the clip.
func decoded(each func(number int, f *astiav.Frame) error) error {
	packets, parameters, err := encoded()
	defer func() {
		for _, p := range packets {
			p.Free()
		}
		if parameters != nil {
			parameters.Free()
		}
	}()
	if err != nil {
		return err
	}
	codec := astiav.FindDecoder(astiav.CodecIDFfv1)
	decoder := astiav.AllocCodecContext(codec)
	defer decoder.Free()
	if err := parameters.ToCodecContext(decoder); err != nil {
		return err
	}
	if err := decoder.Open(codec, nil); err != nil {
		return err
	}
	f := astiav.AllocFrame()
	defer f.Free()
	number := 0
	for _, p := range append(packets, nil) { // nil: no more packets
		if err := decoder.SendPacket(p); err != nil {
			return err
		}
		for {
			err := decoder.ReceiveFrame(f)
			if errors.Is(err, astiav.ErrEagain) || errors.Is(err, astiav.ErrEof) {
				break
			}
			if err == nil {
				err = each(number, f)
			}
			if err != nil {
				return err
			}
			number++
		}
	}
	if number != clipFrames {
		return fmt.Errorf("%d frames instead of %d", number, clipFrames)
	}
	return nil
}

// The planes of a decoded frame are where the decoder wrote them, and moves to the host's own device copy nothing.
func TestDecodedFrames(t *testing.T) {
	host, err := all.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	var kept []*core.Tensor
	err = decoded(func(number int, f *astiav.Frame) error {
		planes, err := Planes(f)
		if err != nil {
			return err
		}
		kept = append(kept, planes...)
		for i, p := range planes {
			data, _ := avtest.Data(f, i)
			moved, report, err := exchange.To(t.Context(), p, host, exchange.Options{})
			if err != nil {
				return err
			}
			address, _ := moved.Address()
			moved.Close()
			if address != data || report.BytesCopied != 0 {
				t.Errorf("frame %d, plane %d: at %#x instead of %#x, %d bytes copied", number, i, address, data, report.BytesCopied)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The decoder is gone, and has reused no memory of a tensor.
	for i, p := range kept {
		values, err := core.ToSlice[uint8](t.Context(), p)
		if err != nil || !bytes.Equal(values, clipPlane(i/3, i%3)) {
			t.Errorf("frame %d, plane %d is not what was encoded (%v)", i/3, i%3, err)
		}
	}
	closeAll(kept)
}

// Planes of frames in FFmpeg's own Vulkan frames context.
func TestVulkanFrames(t *testing.T) {
	const width, height = 64, 48
	format := named(t, "nv12")
	source := newFrame(t, format, width, height)
	vulkan := named(t, "vulkan")
	open := func(option string) *astiav.Frame {
		f := astiav.AllocFrame()
		t.Cleanup(f.Free)
		if err := avtest.HardwareFrame(f, "vulkan", option, vulkan, format, width, height); err != nil {
			coretest.NeedDriver(t, "FFmpeg has no frames in Vulkan: "+err.Error(), "mesa-vulkan-drivers")
		}
		if err := avtest.Upload(f, source); err != nil {
			t.Fatal(err)
		}
		return f
	}

	f := open("linear_images")
	planes, err := Planes(f)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(planes)
	f.Unref()
	want, err := Planes(source)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(want)
	for i, p := range planes {
		if same, err := core.Equal(t.Context(), p, want[i]); err != nil || !same || !p.ReadOnly() {
			t.Errorf("plane %d of a mapped frame differs from what was uploaded (%v), or is not read-only", i, err)
		}
	}
	card, err := all.New().Open(t.Context(), core.DeviceID{Type: core.DeviceVulkan})
	if err != nil {
		coretest.NeedDriver(t, err.Error(), "mesa-vulkan-drivers, and build with the tag vulkan")
	}
	defer card.Close()
	moved, _, err := exchange.To(t.Context(), planes[1], card, exchange.Options{Copy: exchange.Always})
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Close()
	if err := moved.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeAll(planes)
	there, err := core.ToSlice[uint8](t.Context(), moved)
	if err != nil {
		t.Fatal(err)
	}
	if here, err := core.ToSlice[uint8](t.Context(), want[1]); err != nil || !bytes.Equal(there, here) {
		t.Errorf("a plane that was moved to Vulkan differs: %v", err)
	}

	tiled := open("")
	_, err = Planes(tiled)
	coretest.WantError(t, err, core.ErrNotSupported, "Planes of an image that the host cannot read")
	down := astiav.AllocFrame()
	defer down.Free()
	if err := tiled.TransferHardwareData(down); err != nil {
		t.Fatal(err)
	}
	planes, err = Planes(down)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(planes)
	if same, err := core.Equal(t.Context(), planes[0], want[0]); err != nil || !same {
		t.Errorf("a frame that was copied to the host differs: %v", err)
	}
	_, err = PlanesOn(t.Context(), card, nil, tiled)
	coretest.WantError(t, err, core.ErrDevice, "PlanesOn of a frame of Vulkan")
}

// Frames of CUDA, over memory of the device and with the fields of FFmpeg's frames context.
func TestCUDAFrames(t *testing.T) {
	card, err := all.New().Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		coretest.NeedDriver(t, err.Error(), "the driver of an NVIDIA card, or let DLX_CUDA_LIBRARY name the simulated one (make gpusim)")
	}
	t.Cleanup(func() { // after the end of the tensors below
		if err := card.Close(); err != nil {
			t.Error(err)
		}
	})
	const width, height = 40, 24
	format := named(t, "nv12")
	size := avtest.ImageSize(format, width, height)
	memory := coretest.Row(t, card, size, core.AllocOptions{})
	pattern := coretest.Pattern(int(size), 5)
	coretest.Put(t, card, memory, pattern)
	address, _ := memory.Address()
	own, err := card.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for name, native := range map[string]uintptr{"stream of its own": own.Native(), "default stream": 0} {
		t.Run(name, func(t *testing.T) {
			f := astiav.AllocFrame()
			defer f.Free()
			freed, err := avtest.CUDAFrame(f, format, width, height, address, size, native)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Planes(f)
			coretest.WantError(t, err, core.ErrDevice, "Planes of a frame of CUDA")
			for _, s := range []core.Stream{nil, own} {
				planes, err := PlanesOn(t.Context(), card, s, f)
				if s != nil && native == 0 {
					coretest.WantError(t, err, core.ErrInvalid, "PlanesOn with a stream that FFmpeg does not use")
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(planes) != 2 || planes[0].DeviceID() != card.ID() || fmt.Sprint(planes[1].Shape()) != "[12 20 2]" {
					t.Fatalf("planes %v", planes)
				}
				if (s == nil) != (planes[0].Ready() == nil) {
					t.Errorf("with the stream %v a plane waits for %v", s, planes[0].Ready())
				}
				for i, p := range planes {
					data, linesize := avtest.Data(f, i)
					if at, err := p.Address(); err != nil || at != data {
						t.Errorf("plane %d is at %#x instead of %#x (%v)", i, at, data, err)
					}
					values, err := core.ToSlice[uint8](t.Context(), p)
					if err != nil {
						t.Fatal(err)
					}
					for y := range int(p.Shape()[0]) {
						start := int(data-address) + y*linesize
						if !bytes.Equal(values[y*width:(y+1)*width], pattern[start:start+width]) {
							t.Fatalf("row %d of plane %d differs", y, i)
						}
					}
				}
				closeAll(planes)
			}
			planes, err := PlanesOn(t.Context(), card, nil, f)
			if err != nil {
				t.Fatal(err)
			}
			f.Unref()
			planes[0].Close()
			if freed() != 0 {
				t.Error("the frame was freed while a plane is open")
			}
			planes[1].Close()
			if freed() != 1 {
				t.Errorf("the frame was freed %d times", freed())
			}
		})
	}
	f := astiav.AllocFrame()
	defer f.Free()
	if _, err := avtest.CUDAFrame(f, format, width, height, address, size, 0); err != nil {
		t.Fatal(err)
	}
	avtest.SetData(f, 1, address+uintptr(size), 64)
	_, err = PlanesOn(t.Context(), card, nil, f)
	if !errors.Is(err, core.ErrInvalid) {
		t.Errorf("PlanesOn of a plane outside of the memory: %v", err)
	}
	host := newFrame(t, format, width, height)
	_, err = PlanesOn(t.Context(), card, nil, host)
	coretest.WantError(t, err, core.ErrDevice, "PlanesOn of a frame in host memory")
	_, err = PlanesOn(t.Context(), nil, nil, f)
	coretest.WantError(t, err, core.ErrDevice, "PlanesOn without a device")
}

func TestSound(t *testing.T) {
	for _, c := range []struct {
		format   astiav.SampleFormat
		channels int
		planes   int
		dtype    core.DType
	}{
		{astiav.SampleFormatS16, 2, 1, core.TypeInt16},
		{astiav.SampleFormatFlt, 6, 1, core.TypeFloat32},
		{astiav.SampleFormatFltp, 2, 2, core.TypeFloat32},
		{astiav.SampleFormatU8P, 1, 1, core.TypeUint8},
		{astiav.SampleFormatDblp, 11, 11, core.TypeFloat64},
		{astiav.SampleFormatS64, 1, 1, core.TypeInt64},
	} {
		f := astiav.AllocFrame()
		avtest.SetSound(f, c.format, c.channels, 100)
		if err := f.AllocBuffer(0); err != nil {
			t.Fatal(err)
		}
		planes, err := Planes(f)
		if err != nil {
			t.Fatalf("%v: %v", c.format, err)
		}
		if len(planes) != c.planes {
			t.Fatalf("%v: %d planes", c.format, len(planes))
		}
		for i, p := range planes {
			per := int64(c.channels / c.planes)
			if at, _ := p.Address(); at != avtest.Sound(f, i) {
				t.Errorf("%v: plane %d is at %#x instead of %#x", c.format, i, at, avtest.Sound(f, i))
			}
			if p.DType() != c.dtype || fmt.Sprint(p.Shape()) != fmt.Sprint([]int64{per, 100}) {
				t.Errorf("%v: plane %d is %v", c.format, i, p)
			}
		}
		f.Free()
		for _, p := range planes {
			if err := core.Fill(t.Context(), p, float.Float16(0)); err == nil {
				t.Error("samples of another type were written")
			}
		}
		closeAll(planes)
	}
	f := astiav.AllocFrame()
	defer f.Free()
	avtest.SetSound(f, astiav.SampleFormatS16, 2, 100)
	if err := f.AllocBuffer(0); err != nil {
		t.Fatal(err)
	}
	avtest.SetSound(f, astiav.SampleFormatS16, 2, 1<<30)
	_, err := Planes(f)
	coretest.WantError(t, err, core.ErrLayout, "Planes of more samples than there are")
	avtest.SetSound(f, astiav.SampleFormatS16, 0, 100)
	_, err = Planes(f)
	coretest.WantError(t, err, core.ErrInvalid, "Planes of no channels")
	avtest.SetSound(f, 99, 2, 100)
	_, err = Planes(f)
	coretest.WantError(t, err, core.ErrDType, "Planes of an unknown sample format")
	avtest.SetSound(f, astiav.SampleFormatS16P, 64, 100)
	_, err = Planes(f)
	coretest.WantError(t, err, core.ErrLayout, "Planes of more channels than there are")
}
