package benchmarks

import (
	"errors"

	"github.com/dlx-go/dlx/core"
)

// kernelCases are nvbandwidth's sm cases: a kernel makes the copy, not a copy engine. dlx copies by kernels what has strides.
func (l *lister) kernelCases(id core.DeviceID) {
	for _, way := range []string{toDevice, toHost} {
		family := way + "_memcpy_sm"
		from, to := hostEnds(way, id)
		for _, size := range l.buffer(id) {
			l.add(Case{
				Name:        family + "/" + id.String() + size.name,
				Description: "copies of rows with gaps between the device's memory and memory of the host that is mapped into it, which a kernel of the device makes",
				Family:      family, Kind: Bandwidth, From: from, To: to, Memory: mapped, Size: size.bytes,
				setup: func(e *env) (trial, error) { return e.kernelCopy(id, way, e.bytes(size.bytes)) },
			}, true)
		}
	}
	for _, size := range l.buffer(id) {
		l.add(Case{
			Name:        "device_local_copy_sm/" + id.String() + size.name,
			Description: "copies of rows with gaps within the device's memory, which a kernel makes",
			Family:      "device_local_copy_sm", Kind: Bandwidth, From: Ends{id}, To: Ends{id}, Size: size.bytes,
			setup: func(e *env) (trial, error) { return e.kernelCopy(id, "", e.bytes(size.bytes)) },
		}, true)
	}
}

// The rows of a copy by a kernel: rowBytes of every rowStep bytes.
const (
	rowBytes = 4096
	rowStep  = rowBytes + 64
)

// kernelCopy copies rows with gaps from and to memory that the device can access.
func (e *env) kernelCopy(id core.DeviceID, way string, size int64) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	rows := max(1, size/rowBytes)
	onDevice := func(seed uint64) (place, error) { return e.onDevice(d, core.AllocOptions{}, rows*rowStep, seed) }
	onHost := func(seed uint64) (place, error) {
		kind := mapped
		if pinnedTypes[id.Type] != 0 {
			kind = pinned // its addresses are those of the device, too
		}
		p, err := e.onHost(d, kind, rows*rowStep, seed)
		if err != nil && !errors.Is(err, core.ErrNotSupported) {
			err = core.Errorf(core.ErrNotSupported, "benchmarks", "kernelCopy", "kernels of %v cannot reach memory of the host: %v", id, err)
		}
		return p, err
	}
	source, destination := onDevice, onDevice
	switch way {
	case toDevice:
		source = onHost
	case toHost:
		destination = onHost
	}
	src, err := source(sentSeed)
	if err != nil {
		return trial{}, err
	}
	dst, err := destination(sentSeed + beforeSeed)
	if err != nil {
		return trial{}, err
	}
	view := func(t *core.Tensor) (*core.Tensor, error) {
		table, err := e.keep(t.Reshape(rows, rowStep))
		if err != nil {
			return nil, err
		}
		return e.keep(table.Slice(1, 0, rowBytes, 1))
	}
	from, err := view(src.tensor)
	if err != nil {
		return trial{}, err
	}
	to, err := view(dst.tensor)
	if err != nil {
		return trial{}, err
	}
	s, err := e.stream(d)
	if err != nil {
		return trial{}, err
	}
	t := trial{bytes: rows * rowBytes, notes: []string{"the copy has rows with gaps: a copy engine could make it, too, where the driver chooses one"}}
	op := func() error { return d.Copy(e.ctx, s, to, from) }
	t.enqueued(e, d, s, op)
	t.verify = func() (*Mismatch, error) {
		if _, err := t.own(1); err != nil {
			return nil, err
		}
		return e.checkRows(dst, rows)
	}
	return t, nil
}

// checkRows compares the rows that were copied, and what lies between them.
func (e *env) checkRows(p place, rows int64) (*Mismatch, error) {
	want, before := make([]byte, rows*rowStep), make([]byte, rows*rowStep)
	fill(want, sentSeed)
	fill(before, sentSeed+beforeSeed)
	for row := range rows {
		gap := want[row*rowStep+rowBytes : (row+1)*rowStep]
		copy(gap, before[row*rowStep+rowBytes:])
	}
	return e.checkBytes(p, func(got []byte) *Mismatch { return explain(want, got, before) })
}
