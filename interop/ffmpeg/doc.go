// Package ffmpeg exchanges frames of FFmpeg with dlx without a copy: the planes of a decoded frame become
// tensors, and tensors become the planes of a frame. It is for programs that use FFmpeg by
// github.com/asticode/go-astiav, of which it only uses Frame: the version that fits the FFmpeg of the system is
// the program's choice. It needs cgo and the headers of libavutil.
//
//	err := decoder.ReceiveFrame(frame)
//	planes, err := ffmpeg.Planes(frame) // yuv420p: Y of shape (H, W), U and V of (H/2, W/2)
//	frame.Unref()                       // the tensors keep the memory
//	y, report, err := exchange.To(ctx, planes[0], card, exchange.Options{})
//
// # Planes of a picture
//
// A plane with one component for each pixel has the shape (rows, columns), another one (rows, columns,
// components). The strides are those of the frame: rows usually have padding, and a frame that is stored from
// the bottom up has negative strides.
//
//	yuv420p, yuv444p, gbrp      three planes (rows, columns); gbrp: G, B, R
//	nv12                        (H, W), and (H/2, W/2, 2) with U and V
//	rgb24, bgra, rgb0           (H, W, 3) or (H, W, 4); the fourth component of rgb0 is undefined
//	yuyv422, uyvy422            (H, W/2, 4): two pixels, which share U and V
//	yuv420p10le, gray16le       uint16, with the value in the low bits
//	p010le, xyz12le             uint16, with the value in the high bits
//	grayf32le, gbrpf32le        float32
//	bayer_rggb8, bayer_rggb16le (H, W), one color for each pixel
//
// Odd sizes are rounded up. Planes returns [core.ErrDType] for formats whose components are not whole elements
// (monow, rgb565, rgb8), that need a palette (pal8), and whose bytes are in the other order than the
// processor's: convert such frames with FFmpeg's swscale.
//
// # Sound
//
// Each plane of a sound frame is a tensor of shape (channels, samples). Packed samples are one plane of all
// channels, with the strides (1, channels). Planar samples are one plane for each channel, of shape (1, samples).
//
// # Frames in hardware
//
// Planes asks FFmpeg to map the frame into host memory without a copy (av_hwframe_map with
// AV_HWFRAME_MAP_DIRECT). That works for the host-visible, linear images of a Vulkan device, for surfaces of
// VA-API, and wherever FFmpeg has such a mapping. Elsewhere the error says so, and Frame.TransferHardwareData
// copies the frame to the host.
//
// The memory of a CUDA frame has an address: [PlanesOn] makes tensors of it on dlx's CUDA device.
//
// # Frames of tensors
//
// [NewVideoFrame] and [NewAudioFrame] make a frame whose planes are tensors in host memory, for an encoder, a
// filter or swscale.
package ffmpeg
