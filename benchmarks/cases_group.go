package benchmarks

import (
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// groupCases copy between the host, or one device, and all other devices at the same time.
func (l *lister) groupCases() {
	all := l.present()
	ids := func(list []core.DeviceID) Ends { return Ends(slices.Clone(list)) }
	for _, size := range l.buffer(all...) {
		for _, c := range []struct {
			family, description, way string
			bothWays                 bool
		}{
			{"all_to_host_memcpy_ce", "all devices copy to the host, on a stream each; they begin together", toHost, false},
			{"host_to_all_memcpy_ce", "the host's memory is copied to all devices, on a stream each; they begin together", toDevice, false},
			{"all_to_host_bidirectional_memcpy_ce", "the same, with copies in the other direction that are not counted", toHost, true},
			{"host_to_all_bidirectional_memcpy_ce", "the same, with copies in the other direction that are not counted", toDevice, true},
		} {
			from, to := Ends{core.CPU}, ids(all)
			if c.way == toHost {
				from, to = to, from
			}
			l.add(Case{
				Name: c.family + size.name, Description: c.description, Family: c.family, Kind: Bandwidth, From: from, To: to, Size: size.bytes, Streams: len(all),
				setup: func(e *env) (trial, error) { return e.hostAndAll(all, c.way, c.bothWays, e.bytes(size.bytes)) },
			}, c.bothWays)
		}
		for _, one := range all {
			others := slices.DeleteFunc(slices.Clone(all), func(id core.DeviceID) bool { return id == one })
			for _, way := range []string{reading, writing} {
				for _, c := range []struct {
					family   string
					from, to Ends
				}{{"all_to_one_" + way + "_ce", ids(others), Ends{one}}, {"one_to_all_" + way + "_ce", Ends{one}, ids(others)}} {
					l.add(Case{
						Name: c.family + "/" + one.String() + size.name, Family: c.family, Kind: Bandwidth, From: c.from, To: c.to, Size: size.bytes, Streams: len(others),
						Description: "copies between one device and all others at the same time, by the device that " + way + "s",
						setup:       func(e *env) (trial, error) { return e.oneAndAll(c.from, c.to, way, e.bytes(size.bytes)) },
					}, true)
				}
			}
		}
	}
}

// present are the devices that the registry has found, those for tests only if there are no others.
func (l *lister) present() (list []core.DeviceID) {
	for _, id := range l.devices {
		if l.properties[id].ID == id {
			list = append(list, id)
		}
	}
	return list
}

// together measures lanes that begin at the same time, from and to the devices that take part.
func (e *env) together(lanes []lane, from, to Ends, missing []error) (trial, error) {
	if n := max(len(from), len(to)); n < 2 || len(lanes) < 2 {
		if len(lanes) == 0 {
			n = 0
		}
		return trial{}, core.Errorf(core.ErrNotSupported, "benchmarks", "together", "it takes two devices that take part, and there are %d%s", n, reason(errors.Join(missing...)))
	}
	t, err := e.copies(lanes...)
	t.from, t.to, t.streams = from, to, len(lanes)
	for _, err := range missing {
		t.notes = append(t.notes, "without a device: "+err.Error())
	}
	return t, err
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// hostAndAll has all devices that can take part copy from or to the host.
func (e *env) hostAndAll(ids []core.DeviceID, way string, bothWays bool, size int64) (trial, error) {
	var lanes []lane
	var missing []error
	var part Ends
	for i, id := range ids {
		d, err := e.open(id)
		if err == nil {
			var one lane
			if one, _, err = e.hostLane(d, way, e.bestMemory(d), true, size, sentSeed+uint64(2*i)); err == nil {
				lanes, part = append(lanes, one), append(part, id)
			}
		}
		if err == nil && bothWays {
			other := toHost
			if way == toHost {
				other = toDevice
			}
			var load lane
			if load, _, err = e.hostLane(d, other, e.bestMemory(d), true, size, sentSeed+uint64(2*i)+1); err == nil {
				load.load = true
				lanes = append(lanes, load)
			}
		}
		if err != nil {
			if statusOf(err) == Failed {
				return trial{}, err
			}
			missing = append(missing, err)
		}
	}
	if way == toHost {
		return e.together(lanes, part, Ends{core.CPU}, missing)
	}
	return e.together(lanes, Ends{core.CPU}, part, missing)
}

// oneAndAll copies from each device to each other one.
func (e *env) oneAndAll(from, to Ends, way string, size int64) (trial, error) {
	var lanes []lane
	var missing []error
	var sources, destinations Ends
	add := func(e *Ends, id core.DeviceID) {
		if !slices.Contains(*e, id) {
			*e = append(*e, id)
		}
	}
	for i, a := range from {
		for j, b := range to {
			one, err := e.pairLane(a, b, way, size, sentSeed+uint64(i*len(to)+j))
			switch {
			case err == nil:
				lanes = append(lanes, one)
				add(&sources, a)
				add(&destinations, b)
			case statusOf(err) == Failed:
				return trial{}, err
			default:
				missing = append(missing, err)
			}
		}
	}
	return e.together(lanes, sources, destinations, missing)
}

func (e *env) pairLane(from, to core.DeviceID, way string, size int64, seed uint64) (one lane, err error) {
	src, err := e.open(from)
	if err != nil {
		return one, err
	}
	dst, err := e.open(to)
	if err != nil {
		return one, err
	}
	return pair{env: e, from: src, to: dst}.deviceLane(way, size, seed)
}
