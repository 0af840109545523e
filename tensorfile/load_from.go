package tensorfile

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Source has tensors that are not in files of this machine, such as those that a process on another machine offers; package
// remote has one for them. Its methods may be called at the same time.
type Source interface {
	// Infos lists the tensors. Of each, Name, DType, Shape and Bytes are set. The names differ.
	Infos(ctx context.Context) ([]Info, error)
	// Fetch returns a tensor on the device, row-major: rows first to end of its first axis, without end, or if first is 0
	// and end is -1 the whole tensor. The caller closes the result.
	Fetch(ctx context.Context, name string, first, end int64, device core.Device) (*core.Tensor, error)
	// Origin names the source for reports, and says how the tensors came, such as "ucx://10.0.0.7:7470" and "tcp".
	Origin() (name, how string)
}

// sourceThreads is the default of LoadOptions.Threads for a source: enough that one tensor is on its way while another
// one is being asked for, and copied to the device.
const sourceThreads = 4

// LoadFrom is like [Load], and takes the tensors of a source. LoadOptions.Threads tensors are fetched at a time, by default
// 4. Each has an allocation of its own. A part along the first axis is fetched alone. For one along another axis the whole
// tensor is fetched and cut on the device, and the report says so. Read must be ReadAuto; Budget, VoidAs and RowMajor
// have no effect. A checksum is that of the elements that were fetched.
//
// The report has the source as its only file, read by [ReadSource].
//
// LoadFrom returns the errors of the source; ErrInvalid if an argument is nil, an option is out of range, a glob matches no
// tensor, or the source returns a tensor of another type or shape than it has listed; ErrLayout if it lists a name twice, or
// a tensor lacks the axis of its slice; and ErrDType if there is no conversion to LoadOptions.DType. If it fails, nothing
// stays open.
func LoadFrom(ctx context.Context, source Source, device core.Device, options LoadOptions) (*Loaded, error) {
	if nothing(source) || device == nil {
		return nil, loading.errorf(core.ErrInvalid, "the source or the device is nil")
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	if options.Read != ReadAuto {
		return nil, loading.errorf(core.ErrInvalid, "reading %q is for files: use auto for a source", options.Read)
	}
	f := &fetching{start: time.Now(), source: source, device: device, options: options}
	f.options.Threads = cmp.Or(options.Threads, sourceThreads)
	infos, err := source.Infos(ctx)
	if err == nil {
		err = f.choose(infos)
	}
	if err == nil {
		err = f.run(ctx)
	}
	if err != nil {
		return nil, typedOrContext(ctx, err)
	}
	return f.result(infos), nil
}

// fetching is one call of LoadFrom.
type fetching struct {
	start   time.Time
	source  Source
	device  core.Device
	options LoadOptions
	wants   []*wanted
	total   int64 // bytes of all that is fetched

	mu   sync.Mutex
	done int64 // bytes
}

// wanted is a tensor to fetch.
type wanted struct {
	Info
	first, end int64 // rows to fetch
	rows       int64 // of the first axis, that are fetched
	bytes      int64 // of what is fetched
	cut        *part // what is kept of it; nil if that is all
	loaded     *core.Tensor
	sum        string
}

// choose lists the tensors to fetch.
func (f *fetching) choose(infos []Info) error {
	only, sliced := globs{patterns: f.options.Only}, globs{}
	for _, s := range f.options.Slices {
		sliced.patterns = append(sliced.patterns, cmp.Or(s.Name, "*"))
	}
	seen := make(map[string]bool, len(infos))
	for _, info := range infos {
		at := loading.in("tensor", info.Name)
		if seen[info.Name] {
			return at.errorf(core.ErrLayout, "the source has the name twice")
		}
		seen[info.Name] = true
		if len(only.patterns) > 0 {
			if i, err := only.find(info.Name); err != nil || i < 0 {
				if err != nil {
					return err
				}
				continue
			}
		}
		w := &wanted{Info: info, end: -1, bytes: info.Bytes}
		if len(info.Shape) > 0 {
			w.rows = info.Shape[0]
		}
		i, err := sliced.find(info.Name)
		if err == nil && i >= 0 {
			err = w.slice(at, f.options.Slices[i])
		}
		if err == nil && f.options.DType != (core.DType{}) && f.options.DType != info.DType {
			err = tryConversion(at, f.options.DType, info.DType)
		}
		if err != nil {
			return err
		}
		f.wants = append(f.wants, w)
		f.total += w.bytes
	}
	if err := only.unused(); err != nil {
		return err
	}
	return sliced.unused()
}

// slice chooses a part.
func (w *wanted) slice(at fault, by Slice) error {
	if by.Axis >= len(w.Shape) {
		return at.errorf(core.ErrLayout, "it has %d axes, and no axis %d to slice along: slice only tensors that have it, by their names", len(w.Shape), by.Axis)
	}
	n := w.Shape[by.Axis]
	switch from, to := by.Rows(n); {
	case from == 0 && to == n:
	case by.Axis > 0:
		w.cut = &part{by.Axis, from, to}
	default:
		w.first, w.end, w.rows = from, to, to-from
		w.bytes = 0
		if to > from {
			w.bytes = w.Bytes / n * (to - from)
		}
	}
	return nil
}

// run fetches the tensors, several at a time. On failure it closes those that were there.
func (f *fetching) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan *wanted, len(f.wants))
	for _, w := range f.wants {
		queue <- w
	}
	close(queue)
	var work sync.WaitGroup
	for range min(f.options.Threads, len(f.wants)) {
		work.Go(func() {
			for w := range queue {
				if ctx.Err() != nil {
					return
				}
				if err := f.fetch(ctx, w); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	work.Wait()
	err := context.Cause(ctx)
	if err != nil {
		for _, w := range f.wants {
			if w.loaded != nil {
				_ = w.loaded.Close()
			}
		}
	}
	return err
}

// fetch fetches a tensor, and makes of it what is wanted.
func (f *fetching) fetch(ctx context.Context, w *wanted) error {
	at := loading.in("tensor", w.Name)
	t, err := f.source.Fetch(ctx, w.Name, w.first, w.end, f.device)
	if err != nil {
		return at.errorf(err, "it cannot be fetched")
	}
	defer func() { _ = t.Close() }()
	shape := slices.Clone(w.Shape)
	if len(shape) > 0 {
		shape[0] = w.rows
	}
	if t.DType() != w.DType || !slices.Equal(t.Shape(), shape) {
		return at.errorf(core.ErrInvalid, "the source has listed it as %v of the shape %v, and has returned %v of the shape %v", w.DType, shape, t.DType(), t.Shape())
	}
	if f.options.Checksum != NoChecksum {
		if w.sum, err = checksumOf(ctx, t, f.options.Checksum, at); err != nil {
			return err
		}
	}
	y, err := t.Share()
	if c := w.cut; err == nil && c != nil {
		_ = y.Close()
		var view *core.Tensor
		if view, err = t.Slice(c.axis, c.from, c.to, 1); err == nil {
			y, err = view.Clone(ctx)
			_ = view.Close()
		}
	}
	if err == nil && f.options.DType != (core.DType{}) && f.options.DType != y.DType() {
		part := y
		y, err = part.AsType(ctx, f.options.DType)
		_ = part.Close()
	}
	if err == nil {
		if err = y.WaitReady(ctx); err != nil {
			_ = y.Close()
		}
	}
	if err != nil {
		return at.errorf(err, "it cannot be loaded")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w.loaded = y
	f.done += t.NumBytes()
	if f.options.Progress != nil {
		f.options.Progress(f.done, f.total)
	}
	return nil
}

// checksumOf returns the checksum of the elements of a row-major tensor.
func checksumOf(ctx context.Context, t *core.Tensor, c Checksum, at fault) (text string, err error) {
	f := newFetcher(ctx, SaveOptions{})
	defer func() {
		if closing := f.close(); err == nil {
			err = closing
		}
	}()
	var s *source
	if t.DeviceID().Type.HostAccessible() {
		s, err = newSource(ctx, Named{Tensor: t}, at)
	} else {
		s, err = newFetched(Named{Tensor: t}, f, at)
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = s.memory.Close() }()
	x := sum{hash: c.newHash()}
	if err := s.write(x.hash, s.layout); err != nil {
		return "", err
	}
	return x.text(c), nil
}

// result returns what was loaded.
func (f *fetching) result(infos []Info) *Loaded {
	l := &Loaded{Tensors: make(map[string]*core.Tensor, len(f.wants)), Names: make([]string, 0, len(f.wants))}
	r := &l.Report
	r.Device, r.Tensors, r.Threads = f.device.ID(), len(f.wants), min(f.options.Threads, len(f.wants))
	if f.options.Checksum != NoChecksum {
		r.Checksums = make(map[string]string, len(f.wants))
	}
	for _, w := range f.wants {
		l.Tensors[w.Name], l.Names = w.loaded, append(l.Names, w.Name)
		r.Bytes, r.Read, r.Loaded, r.Allocated = r.Bytes+w.bytes, r.Read+w.bytes, r.Loaded+w.loaded.NumBytes(), r.Allocated+1
		if w.sum != "" {
			r.Checksums[w.Name] = w.sum
		}
		if w.cut != nil {
			r.Refused = append(r.Refused, Refusal{w.Name, "all of it was fetched for a part along an axis other than the first one"})
		}
	}
	file := LoadedFile{Cached: -1, Read: ReadSource, Tensors: len(f.wants)}
	file.Path, file.Reason = f.source.Origin()
	for _, info := range infos {
		file.Bytes += info.Bytes
	}
	file.Wanted = r.Bytes
	r.Files = []LoadedFile{file}
	r.Time = time.Since(f.start)
	r.Rate = float64(r.Bytes) / r.Time.Seconds()
	countLoaded(r)
	return l
}
