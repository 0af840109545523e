//go:build cgo && unix

package onnxruntime

import (
	"strconv"

	"github.com/dlx-go/dlx/core"
)

// StreamOptions returns the options with which the CUDA and TensorRT providers of ONNX Runtime compute on s: pass them
// to Update of ort.CUDAProviderOptions or ort.TensorRTProviderOptions. Work of such a session is then in order with the
// work on s, so that Binding.Run with s need not wait on the host for its inputs. Close s after the session.
//
// StreamOptions returns core.ErrInvalid if s is nil, and core.ErrNotSupported if s is no stream of CUDA.
func StreamOptions(s core.Stream) (map[string]string, error) {
	if s == nil {
		return nil, core.Errorf(core.ErrInvalid, apiName, "StreamOptions", "the stream is nil")
	}
	device, native := s.Device(), s.Native()
	if device == nil || device.ID().Type != core.DeviceCUDA || native == 0 {
		return nil, core.Errorf(core.ErrNotSupported, apiName, "StreamOptions", "the stream is none of CUDA, or has no handle")
	}
	return map[string]string{
		"device_id":           strconv.Itoa(int(device.ID().Index)),
		"user_compute_stream": strconv.FormatUint(uint64(native), 10),
	}, nil
}
