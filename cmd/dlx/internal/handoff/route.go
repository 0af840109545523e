package handoff

import (
	"context"
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// Route is a sequence of opened devices that tensors travel along. The caller
// closes it after the tensors that came from it. It is not safe for concurrent use.
type Route struct {
	host   station   // where a tensor is compared and written to a file
	stops  []station // in the order of travel; a device may be there more than once
	opened []station // each device once, in the order of opening
}

// station is a device with the stream that its copies run on.
type station struct {
	device core.Device
	stream core.Stream
}

// Open opens every device of a route once, and the host. It fails like
// [core.Registry.Open] and [core.Device.NewStream], and leaves nothing open then.
func Open(ctx context.Context, registry *core.Registry, via []core.DeviceID) (*Route, error) {
	r := new(Route)
	var err error
	if r.host, err = r.open(ctx, registry, core.CPU); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, id := range via {
		stop, err := r.open(ctx, registry, id)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.stops = append(r.stops, stop)
	}
	return r, nil
}

func (r *Route) open(ctx context.Context, registry *core.Registry, id core.DeviceID) (station, error) {
	if s, ok := r.find(id); ok {
		return s, nil
	}
	device, err := registry.Open(ctx, id)
	if err != nil {
		return station{}, err
	}
	stream, err := device.NewStream(ctx)
	if err != nil {
		return station{}, errors.Join(err, device.Close())
	}
	s := station{device, stream}
	r.opened = append(r.opened, s)
	return s, nil
}

// find returns the opened device that a place belongs to.
func (r *Route) find(id core.DeviceID) (station, bool) {
	i := slices.IndexFunc(r.opened, func(s station) bool { return s.device.ID() == id })
	if i < 0 {
		return station{}, false
	}
	return r.opened[i], true
}

// Close closes the streams and devices. Tensors that came from the route must be
// closed before: a device that still has memory open stays open and is an error.
func (r *Route) Close() error {
	var errs []error
	for _, s := range slices.Backward(r.opened) {
		errs = append(errs, s.stream.Close(), s.device.Close())
	}
	return errors.Join(errs...)
}
