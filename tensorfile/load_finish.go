package tensorfile

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// makeTensors makes the tensors that lie in groups, whose bytes need not be there yet.
func (l *loader) makeTensors(result *Loaded) error {
	result.Tensors, result.Names = make(map[string]*core.Tensor, len(l.wants)), make([]string, 0, len(l.wants))
	for _, w := range l.wants {
		result.Names = append(result.Names, w.name)
		if w.g == nil {
			continue // loadWhole makes it
		}
		spec := core.Spec{DType: w.dtype, Shape: w.shape, Strides: w.strides}
		if w.g.file != nil {
			spec.Flags = core.FlagReadOnly
		}
		t, err := typedOf(w.g.mem, w.g.at+w.to, spec)
		if err != nil {
			return err
		}
		result.Tensors[w.name] = t
	}
	return nil
}

// finish makes the report, and closes the groups.
func (l *loader) finish(result *Loaded) {
	r := &l.report
	r.Tensors = len(l.wants)
	if l.options.Checksum != NoChecksum {
		r.Checksums = make(map[string]string, len(l.wants))
	}
	for _, w := range l.wants {
		r.Bytes += w.bytes()
		r.Loaded += w.size
		if w.e.Swapped {
			r.Swapped++
		}
		if r.Checksums != nil {
			r.Checksums[w.name] = w.sum.text(l.options.Checksum)
		}
	}
	l.closeGroups()
	for _, s := range l.shards {
		l.reportUnable(s)
		r.Files = append(r.Files, s.report)
	}
	result.Report = *r
}

// loadWhole loads a tensor that does not go through pieces, by way of a copy in host memory.
func (l *loader) loadWhole(ctx context.Context, w *want) (err error) {
	if w.bytes() == 0 { // a slice may leave nothing of a large tensor, which is then not read
		w.done, err = w.empty(ctx, l.device)
		l.report.Allocated++
		return err
	}
	src, err := l.readWhole(ctx, w)
	if err != nil {
		return err
	}
	defer func() {
		if src != nil {
			_ = src.Close()
		}
	}()
	if w.converts() {
		changed, err := src.AsType(ctx, w.dtype)
		if err != nil {
			return w.at().errorf(err, "it cannot be loaded as %v", w.dtype)
		}
		_ = src.Close()
		src = changed
	}
	dst, err := w.empty(ctx, l.device)
	if err != nil {
		return err
	}
	l.report.Allocated++
	if err := l.device.Copy(ctx, nil, dst, src); err != nil {
		_ = dst.Close()
		return err
	}
	w.done = dst
	return nil
}

// readWhole returns the tensor, or its part, in host memory that is not the mapped file, and computes its checksum. The
// caller closes it.
func (l *loader) readWhole(ctx context.Context, w *want) (*core.Tensor, error) {
	data, err := w.s.file.load(w.e, w.s.file.share.m.data, w.at())
	if err != nil {
		return nil, err
	}
	m := newMapping(data, nil)
	t, err := core.Wrap(core.Memory{ID: core.CPU, Handle: address(m.data), Size: int64(len(m.data)), Owner: m}, core.Spec{DType: w.e.DType, Shape: w.e.Shape, Strides: w.e.Strides})
	if err != nil {
		m.Free()
		return nil, err
	}
	if w.part != nil {
		whole := t
		defer func() { _ = whole.Close() }()
		if t, err = whole.Slice(w.part.axis, w.part.from, w.part.to, 1); err != nil {
			return nil, err
		}
	}
	if l.options.Checksum != NoChecksum { // of the bytes as the file has them
		if err := w.sumOf(ctx, l.options.Checksum, t); err != nil {
			_ = t.Close()
			return nil, err
		}
	}
	if w.e.Swapped {
		swapBytes(data, w.e.DType)
	}
	return t, nil
}

// sumOf computes the checksum of a tensor of the host, in the order of its bytes in the file.
func (w *want) sumOf(ctx context.Context, c Checksum, t *core.Tensor) error {
	if !rowMajor(w.e) {
		reversed, err := t.Transpose()
		if err != nil {
			return err
		}
		defer func() { _ = reversed.Close() }()
		t = reversed
	}
	s, err := newSource(ctx, Named{w.name, t}, w.at())
	if err != nil {
		return err
	}
	defer func() { _ = s.memory.Close() }()
	w.sum.hash = c.newHash()
	return s.write(w.sum.hash, s.layout)
}

// empty allocates the result, in the order of the axes that it has in the file or in row-major order.
func (w *want) empty(ctx context.Context, d core.Device) (*core.Tensor, error) {
	if w.strides == nil {
		return core.Empty(ctx, d, w.dtype, w.shape, core.AllocOptions{})
	}
	m, err := core.Alloc(ctx, d, w.size, core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	t, err := core.Wrap(m, core.Spec{DType: w.dtype, Shape: w.shape, Strides: w.strides})
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}
