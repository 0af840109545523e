package tensorfile

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// makeTensors makes the tensors that lie in groups, whose bytes need not be there yet.
func (l *loader) makeTensors(result *Loaded) (err error) {
	result.Tensors, result.Names = make(map[string]*core.Tensor, len(l.wants)), make([]string, 0, len(l.wants))
	made := make([]*core.Tensor, 0, len(l.wants))
	defer func() {
		if err != nil {
			for _, t := range made {
				_ = t.Close()
			}
		}
	}()
	for _, w := range l.wants {
		result.Names = append(result.Names, w.e.Name)
		if w.g == nil {
			continue // loadWhole makes it
		}
		spec := w.spec()
		if w.g.file != nil {
			spec.Flags = core.FlagReadOnly
		}
		t, err := typedOf(w.g.mem, w.g.at+w.to, spec)
		if err != nil {
			return err
		}
		made = append(made, t)
		if result.Tensors[w.e.Name] = t; len(result.Tensors) < len(made) { // the name was there: its tensor is only in made
			return w.s.repeated(w.e.Name)
		}
	}
	return nil
}

// repeated returns the error for a file that has a tensor twice.
func (s *shard) repeated(name string) error {
	return named(repeatedTensor(name, fault{format: s.file.format, call: "Open"}), s.path)
}

// count counts what is loaded, for the report.
func (l *loader) count() {
	l.report.Tensors = len(l.wants)
	for _, w := range l.wants {
		l.report.Bytes += w.bytes()
		w.s.report.Wanted += w.bytes()
		l.report.Loaded += w.size()
		if w.e.Swapped {
			l.report.Swapped++
		}
	}
}

// finish completes the report, and closes the groups.
func (l *loader) finish(result *Loaded) {
	r := &l.report
	if l.options.Checksum != NoChecksum {
		r.Checksums = make(map[string]string, len(l.wants))
		for _, w := range l.wants {
			r.Checksums[w.e.Name] = w.cut.sum.text(l.options.Checksum)
		}
	}
	l.closeGroups()
	for _, s := range l.shards {
		l.reportUnable(s)
		r.Files = append(r.Files, s.report)
	}
	if len(l.shards) == 1 {
		result.Metadata = l.shards[0].file.Metadata()
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
		changed, err := src.AsType(ctx, w.dtype())
		if err != nil {
			return w.at().errorf(err, "it cannot be loaded as %v", w.dtype())
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
	data, err := w.s.copyOf(w)
	if err != nil {
		return nil, err
	}
	m := newMapping(data, nil)
	t, err := core.Wrap(core.Memory{ID: core.CPU, Handle: address(m.data), Size: int64(len(m.data)), Owner: m}, core.Spec{DType: w.e.DType, Shape: w.e.Shape(), Strides: w.e.Strides()})
	if err != nil {
		m.Free()
		return nil, err
	}
	if w.cut != nil && w.cut.part != nil {
		whole := t
		defer func() { _ = whole.Close() }()
		if t, err = whole.Slice(w.cut.part.axis, w.cut.part.from, w.cut.part.to, 1); err != nil {
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

// copyOf returns a copy of the elements.
func (s *shard) copyOf(w *want) ([]byte, error) {
	if s.stream == nil {
		return s.file.load(w.e, s.file.share.m.data, w.at())
	}
	if w.e.Bytes > maxAllocation {
		return nil, w.at().errorf(core.ErrOutOfMemory, "its %d bytes are more than this machine can address", w.e.Bytes)
	}
	data, err := allocate(int(w.e.Bytes))
	if err != nil {
		return nil, w.at().errorf(err, "its %d bytes cannot be read into memory", w.e.Bytes)
	}
	return data, s.stream.readAt(data, w.e.Offset)
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
	s, err := newSource(ctx, Named{w.e.Name, t}, w.at())
	if err != nil {
		return err
	}
	defer func() { _ = s.memory.Close() }()
	w.cut.sum.hash = c.newHash()
	return s.write(w.cut.sum.hash, s.layout)
}

// empty allocates the result, in the order of the axes that it has in the file or in row-major order.
func (w *want) empty(ctx context.Context, d core.Device) (*core.Tensor, error) {
	spec := w.spec()
	if spec.Strides == nil {
		return core.Empty(ctx, d, spec.DType, spec.Shape, core.AllocOptions{})
	}
	m, err := core.Alloc(ctx, d, w.size(), core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	t, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}
