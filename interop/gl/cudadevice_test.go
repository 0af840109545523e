package gl

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/backends/gl"
	"github.com/dlx-go/dlx/core"
)

func TestTheCUDADeviceOfACard(t *testing.T) {
	device := func(index int32, uuid byte) core.Properties {
		return core.Properties{ID: core.DeviceID{Type: core.DeviceCUDA, Index: index}, UUID: core.UUID{uuid}}
	}
	two := []core.Properties{device(0, 'a'), device(1, 'b')}
	unknown := gl.Card{CUDA: -1, NoCUDA: errors.New("no EGL")}
	for _, c := range []struct {
		rule    string
		card    gl.Card
		devices []core.Properties
		want    int32
		err     error
	}{
		{"by the number", gl.Card{CUDA: 1}, two, 1, nil},
		{"by the number and the UUID", gl.Card{CUDA: 1, UUID: core.UUID{'b'}}, two, 1, nil},
		{"by the number, of devices without UUIDs", gl.Card{CUDA: 1, UUID: core.UUID{'b'}}, []core.Properties{device(0, 0), device(1, 0)}, 1, nil},
		{"by the UUID, without a number", gl.Card{CUDA: -1, UUID: core.UUID{'b'}}, two, 1, nil},
		{"by the UUID, against a number that a variable has changed", gl.Card{CUDA: 0, UUID: core.UUID{'b'}}, two, 1, nil},
		{"another card with the number", gl.Card{CUDA: 0, UUID: core.UUID{'c'}}, two, 0, core.ErrDevice},
		{"a number that CUDA does not have", gl.Card{CUDA: 2}, two, 0, core.ErrDevice},
		{"a UUID that CUDA does not have", gl.Card{CUDA: -1, UUID: core.UUID{'c'}}, two, 0, core.ErrDevice},
		{"no devices", gl.Card{CUDA: 0, UUID: core.UUID{'a'}}, nil, 0, core.ErrDevice},
		{"neither", unknown, two, 0, core.ErrNotSupported},
		{"neither, of devices without UUIDs", unknown, []core.Properties{device(0, 0)}, 0, core.ErrNotSupported},
	} {
		id, err := deviceOfCard(c.card, c.devices)
		switch {
		case !errors.Is(err, c.err):
			t.Errorf("%s: error %v, want %v", c.rule, err, c.err)
		case err == nil && id != (core.DeviceID{Type: core.DeviceCUDA, Index: c.want}):
			t.Errorf("%s: %v, want cuda:%d", c.rule, id, c.want)
		}
	}
}
