package gl

import (
	"context"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/backends/gl"
	"github.com/dlx-go/dlx/core"
)

// CUDADevice returns the CUDA device that is on the card of an OpenGL context, for [RegisterCUDA]. run calls a function
// on the thread where the context is current, and returns when the function has returned; most programs pass [Loop.Run].
//
// The device is the one whose number EGL reports (EGL_CUDA_DEVICE_NV of EGL_NV_device_cuda). For a context of another
// API, such as GLX, and where the driver does not report a number, it is the device with the UUID of the context
// (GL_EXT_memory_object). A number of a device with another UUID is ignored: variables such as CUDA_VISIBLE_DEVICES
// change the numbers.
//
// CUDADevice fails with core.ErrDevice if CUDA does not have the card, with core.ErrNotSupported if the driver reports
// neither, with the errors of [Wrap] for the context, and with those of CUDA's backend if it cannot list its devices.
// RegisterCUDA may be tried with any device: it fails with core.ErrDevice for one on another card.
func CUDADevice(ctx context.Context, run func(f func())) (core.DeviceID, error) {
	card, err := gl.CardOf(run)
	if err != nil {
		return core.DeviceID{}, err
	}
	devices, err := cuda.New().Devices(ctx)
	if err != nil {
		return core.DeviceID{}, err
	}
	return deviceOfCard(card, devices)
}

// deviceOfCard finds a card among CUDA's devices.
func deviceOfCard(card gl.Card, devices []core.Properties) (core.DeviceID, error) {
	var unknown core.UUID
	for _, d := range devices {
		if d.ID.Index == card.CUDA && (card.UUID == unknown || d.UUID == unknown || d.UUID == card.UUID) {
			return d.ID, nil
		}
	}
	for _, d := range devices {
		if card.UUID != unknown && d.UUID == card.UUID {
			return d.ID, nil
		}
	}
	if card.UUID == unknown && card.CUDA < 0 {
		return core.DeviceID{}, core.Errorf(core.ErrNotSupported, "gl", "CUDADevice", "the driver has no GL_EXT_memory_object, which says the UUID of the card, nor CUDA's number of it: %v", card.NoCUDA)
	}
	return core.DeviceID{}, core.Errorf(core.ErrDevice, "gl", "CUDADevice", "none of the %d devices of CUDA is the card of the context, whose UUID is %v and whose number of CUDA is %d", len(devices), card.UUID, card.CUDA)
}
