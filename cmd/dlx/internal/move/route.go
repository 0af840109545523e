package move

import (
	"context"
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// Route is a sequence of opened devices. The caller closes it, after the tensors that its
// methods returned. It is not safe for concurrent use.
type Route struct {
	host   station   // the host, on which elements are compared and written to a file
	stops  []station // the devices of the route, in order; a device may occur more than once
	opened []station // each device once, in the order of opening
}

// station is a device with the stream for its copies.
type station struct {
	device core.Device
	stream core.Stream
}

// Open opens the host and every device of a route. It fails as [core.Registry.Open] and
// [core.Device.NewStream] do, and leaves nothing open then.
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

// find returns the opened device for a device ID.
func (r *Route) find(id core.DeviceID) (station, bool) {
	i := slices.IndexFunc(r.opened, func(s station) bool { return s.device.ID() == id })
	if i < 0 {
		return station{}, false
	}
	return r.opened[i], true
}

// exists returns core.ErrInvalid if r is nil.
func (r *Route) exists(call string) error {
	if r == nil {
		return core.Errorf(core.ErrInvalid, "move", call, "the route is nil: make it with Open")
	}
	return nil
}

// Close closes the streams and devices. Close the tensors of the route first: if a device has
// open memory, it stays open and Close returns an error. Closing a nil route does nothing.
func (r *Route) Close() error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, s := range slices.Backward(r.opened) {
		errs = append(errs, s.stream.Close(), s.device.Close())
	}
	return errors.Join(errs...)
}
