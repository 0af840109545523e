package benchmarks

import (
	"strings"

	"github.com/dlx-go/dlx/core"
)

// deviceCases measure the copies of each device: within it, to it and from it, and
// those of strided views.
func deviceCases(ids ...core.DeviceID) []Case {
	var cases []Case
	for _, id := range ids {
		device := "device/" + id.Type.String()
		for _, c := range []struct {
			name, description string
			dst, src          core.DeviceID
		}{
			{"copy", "within the device", id, id},
			{"upload", "from the host to the device", id, core.CPU},
			{"download", "from the device to the host", core.CPU, id},
		} {
			for _, size := range []int64{64 << 10, 64 << 20} {
				cases = append(cases, Case{
					Name:        strings.Join([]string{device, c.name, binarySize(size)}, "/"),
					Description: "Device.Copy of bytes in a row, " + c.description,
					setup:       func(e *env) (trial, error) { return plainCopy(e, id, c.dst, c.src, e.bytes(size)) },
				})
			}
		}
		for _, v := range views {
			if v.onDevices {
				cases = append(cases, Case{
					Name:        strings.Join([]string{device, v.name, core.TypeFloat32.String()}, "/"),
					Description: "Device.Copy into a row, both on the device: " + v.description,
					Target:      Target{Measure: Speed, Limit: 1, Baseline: hostPacking},
					setup:       func(e *env) (trial, error) { return stridedOn(e, id, v) },
				})
			}
		}
	}
	return cases
}

// plainCopy is a copy by the device id between memory of dst and src.
func plainCopy(e *env, id, dst, src core.DeviceID, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	ends := make([]*core.Tensor, 2)
	for i, place := range []core.DeviceID{dst, src} {
		at, err := e.open(place)
		if err != nil {
			return trial{}, err
		}
		if ends[i], err = e.filled(at, core.TypeUint8, core.AllocOptions{}, size); err != nil {
			return trial{}, err
		}
	}
	return trial{bytes: size, own: repeat(func() error { return d.Copy(e.ctx, nil, ends[0], ends[1]) })}, nil
}

// hostPacking is what a strided copy of a device is to replace: the host puts the
// elements into a row, and that is copied to the device.
const hostPacking = "host packing + upload"

func stridedOn(e *env, id core.DeviceID, v view) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	host, err := e.device()
	if err != nil {
		return trial{}, err
	}
	shape := e.shape(v.shape)
	base, err := e.filled(d, core.TypeFloat32, core.AllocOptions{}, shape...)
	if err != nil {
		return trial{}, err
	}
	src, err := e.keep(v.of(base))
	if err != nil {
		return trial{}, err
	}
	dst, err := e.filled(d, core.TypeFloat32, core.AllocOptions{}, src.Shape()...)
	if err != nil {
		return trial{}, err
	}
	hostBase, err := e.tensor(host, core.TypeFloat32, shape...)
	if err != nil {
		return trial{}, err
	}
	hostSrc, err := e.keep(v.of(hostBase))
	if err != nil {
		return trial{}, err
	}
	packed, err := e.tensor(host, core.TypeFloat32, src.Shape()...)
	if err != nil {
		return trial{}, err
	}
	return trial{
		bytes: src.NumBytes(),
		own:   repeat(func() error { return d.Copy(e.ctx, nil, dst, src) }),
		baselines: []baseline{{
			name: hostPacking,
			sample: repeat(func() error {
				if err := host.Copy(e.ctx, nil, packed, hostSrc); err != nil {
					return err
				}
				return d.Copy(e.ctx, nil, dst, packed)
			}),
		}},
	}, nil
}
