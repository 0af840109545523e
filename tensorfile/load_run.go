package tensorfile

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
	"github.com/dlx-go/dlx/internal/staging"
)

// runner reads pieces by several threads while others are still being planned. One goroutine plans and feeds.
type runner struct {
	*loader
	ctx      context.Context // of the threads; it ends with the first error
	cancel   context.CancelCauseFunc
	queue    chan *piece // in the order of the files
	threads  sync.WaitGroup
	started  int         // number of threads
	finished bool        // finish was called
	stream   core.Stream // of the device; nil if nothing is copied. Whoever feeds sets it before a piece needs it

	mu      sync.Mutex // guards what follows, fields of the report about buffers, and calls of Progress
	planned bool       // total is known
	total   int64
	done    int64
}

// newRunner returns a runner without threads. The caller calls stop.
func newRunner(ctx context.Context, l *loader) *runner {
	r := &runner{loader: l, queue: make(chan *piece, 64)}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

// feed adds a piece, whose group is allocated.
func (r *runner) feed(p *piece) (err error) {
	if g := p.g; g.file == nil && g.host == nil && r.stream == nil {
		if r.stream, err = r.device.NewStream(r.ctx); err != nil {
			return err
		}
	}
	if r.started < r.report.Threads {
		r.started++
		r.threads.Go(func() {
			if err := r.work(r.ctx); err != nil {
				r.cancel(err)
			}
		})
	}
	select {
	case r.queue <- p:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// wait waits until all pieces are read and copied.
func (r *runner) wait() error {
	r.finished = true
	close(r.queue)
	r.threads.Wait()
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if r.stream != nil {
		return r.stream.Synchronize(r.ctx)
	}
	return nil
}

// stop ends the threads and closes the stream. err is the error of what was run, or nil. stop returns it or its own.
func (r *runner) stop(err error) error {
	r.cancel(err)
	if errors.Is(err, context.Canceled) { // a thread may have failed while what followed was being planned
		err = context.Cause(r.ctx)
	}
	if !r.finished {
		_ = r.wait()
	}
	if r.stream != nil {
		if closing := r.stream.Close(); err == nil {
			err = closing
		}
	}
	return err
}

// run reads everything that was planned and makes the tensors, which takes as long as to read many small ones, meanwhile.
func (r *runner) run() (_ *Loaded, err error) {
	for _, g := range r.groups {
		if g.mem == nil {
			if err := r.allocate(r.ctx, g); err != nil {
				return nil, err
			}
		}
	}
	if r.options.Checksum != NoChecksum {
		defer context.AfterFunc(r.ctx, func() {
			for _, g := range r.groups {
				g.wake()
			}
		})()
	}
	r.startProgress()
	for i := range r.pieces {
		if err := r.feed(&r.pieces[i]); err != nil {
			return nil, err
		}
	}
	result := &Loaded{}
	defer func() {
		if err != nil {
			_ = result.Close()
		}
	}()
	if err := r.makeTensors(result); err != nil {
		return nil, err
	}
	r.count()
	if err := r.wait(); err != nil {
		return nil, err
	}
	for _, w := range r.whole {
		if result.Tensors[w.e.Name] != nil {
			return nil, w.s.repeated(w.e.Name)
		}
		if err := r.loadWhole(r.ctx, w); err != nil {
			return nil, err
		}
		result.Tensors[w.e.Name], w.done = w.done, nil
		r.progress(w.bytes())
	}
	for _, s := range r.shards {
		if err := s.verify(); err != nil {
			return nil, err
		}
	}
	r.report.Read, r.report.Threads = r.done, max(r.started, 1)
	r.finish(result)
	return result, nil
}

// startProgress computes how much there is to read, and reports what was read before that was known.
func (r *runner) startProgress() {
	var total int64
	for i := range r.pieces {
		total += r.pieces[i].n
	}
	for _, s := range r.shards {
		for _, g := range s.ahead {
			total += g.size
		}
	}
	for _, w := range r.whole {
		total += w.bytes()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planned, r.total = true, total
	if f := r.options.Progress; f != nil && r.done > 0 {
		f(r.done, total)
	}
}

// progress counts bytes that were read.
func (r *runner) progress(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += n
	if f := r.options.Progress; f != nil && r.planned {
		f(r.done, r.total)
	}
}

// worker is a thread that reads pieces.
type worker struct {
	*runner
	pipeline staging.Pipeline[buffers, *piece, inBuffer]
}

// buffers are for what is read and for what becomes of it; nil until they are needed.
type buffers struct{ in, out *stagingBuffer }

// inBuffer says where the bytes are that a piece becomes, and which copy brings them to the device.
type inBuffer struct {
	buffer *stagingBuffer
	from   int64      // where they begin in data of buffer
	copied core.Event // nil as long as they are only filled in
}

var _ staging.Steps[buffers, *piece, inBuffer] = (*worker)(nil)

// work reads pieces until there are none, or ctx ends.
func (r *runner) work(ctx context.Context) error {
	w := &worker{runner: r}
	w.pipeline.Steps = w
	defer w.pipeline.Close(func(b *buffers) { closeBuffer(&b.in); closeBuffer(&b.out) })
	for p := range r.queue {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.one(ctx, p); err != nil {
			return err
		}
		r.progress(p.n)
	}
	return nil
}

// one reads a piece and takes it to its group.
func (w *worker) one(ctx context.Context, p *piece) error {
	if p.g.file != nil {
		return w.inPlace(ctx, p)
	}
	if done, err := w.byDevice(ctx, p); done {
		return err
	}
	if p.g.host != nil {
		return w.toHost(ctx, p)
	}
	return w.pipeline.Put(ctx, p)
}

// toHost reads a piece to a group that the host can access.
func (w *worker) toHost(ctx context.Context, p *piece) error {
	b, free := w.pipeline.Next()
	if p.jobs != nil {
		data, err := w.read(ctx, b, p, free)
		if err != nil {
			return err
		}
		mem := p.g.mem
		if p.g.view != nil {
			mem = p.g.view
		}
		return p.change(ctx, b.in, data, p.g.host[p.to:][:p.size], mem, p.g.at+p.to)
	}
	dst := p.g.host[p.to:][:p.n]
	if err := p.s.into(dst, p.off, func(int64) ([]byte, error) { return w.ready(ctx, &b.in, free) }); err != nil {
		return err
	}
	return w.checksum(ctx, p, dst)
}

// read reads a piece to a buffer, and returns its bytes there.
func (w *worker) read(ctx context.Context, b *buffers, p *piece, free inBuffer) ([]byte, error) {
	buffer, err := w.ready(ctx, &b.in, free)
	if err != nil {
		return nil, err
	}
	data, err := p.s.stage(buffer, p.off, p.n)
	if err != nil {
		return nil, err
	}
	return data, w.checksum(ctx, p, data)
}

// Fill reads a piece to a buffer, and makes there of it what the group gets.
func (w *worker) Fill(ctx context.Context, b *buffers, p *piece, free inBuffer) (inBuffer, error) {
	data, err := w.read(ctx, b, p, free)
	if err != nil {
		return inBuffer{}, err
	}
	if p.jobs == nil {
		return inBuffer{buffer: b.in, from: addressOf(data) - addressOf(b.in.data)}, nil
	}
	bytes, err := w.ready(ctx, &b.out, free)
	if err != nil {
		return inBuffer{}, err
	}
	return inBuffer{buffer: b.out}, p.change(ctx, b.in, data, bytes, b.out.host(), b.out.at)
}

// inPlace makes the system read the pages of a piece of a mapped file.
func (w *worker) inPlace(ctx context.Context, p *piece) (err error) {
	if err := p.s.populate(p.off, p.n); err != nil {
		return err
	}
	if w.options.Checksum == NoChecksum {
		return nil
	}
	file := p.s.file.share.m.data
	gone := memfault.Guard(memfault.Within(file), func() { err = w.checksum(ctx, p, file[p.off:][:p.n]) })
	if gone != nil {
		return p.s.unreadable(gone)
	}
	return err
}

// ready returns the bytes of a buffer when the copy that uses it is done. free is the last copy from buffers of the pair.
func (w *worker) ready(ctx context.Context, s **stagingBuffer, free inBuffer) ([]byte, error) {
	if *s == nil {
		b, kind, err := w.newBuffer(ctx)
		if err != nil {
			return nil, err
		}
		*s = b
		w.mu.Lock()
		w.report.Staged += int64(len(b.data)) + block
		w.report.Buffers = kind
		w.mu.Unlock()
	}
	if free.copied == nil || free.buffer != *s {
		return (*s).data, nil
	}
	return (*s).data, free.copied.Wait(ctx)
}

// newBuffer allocates a buffer for a piece. Only what a device copies has to be in memory of the device.
func (w *worker) newBuffer(ctx context.Context) (*stagingBuffer, string, error) {
	n := w.piece + 2*block
	if w.stream != nil {
		return newStagingBuffer(ctx, w.device, n)
	}
	s, err := newHostBuffer(n)
	return s, plainMemory, err
}

// Empty copies what became of a piece to the device.
func (w *worker) Empty(ctx context.Context, _ *buffers, p *piece, x inBuffer) (inBuffer, error) {
	dst, err := bytesOf(p.g.mem, p.g.at+p.to, p.size)
	if err != nil {
		return inBuffer{}, err
	}
	defer func() { _ = dst.Close() }()
	src, err := bytesOf(x.buffer.mem, x.buffer.at+x.from, p.size)
	if err != nil {
		return inBuffer{}, err
	}
	defer func() { _ = src.Close() }()
	if err := w.device.Copy(ctx, w.stream, dst, src); err != nil {
		return inBuffer{}, err
	}
	x.copied, err = w.stream.Record()
	return x, err
}

// change carries out the jobs of a piece whose bytes are data in the buffer in. It writes to bytes, which begin at a byte
// of mem.
func (p *piece) change(ctx context.Context, in *stagingBuffer, data, bytes []byte, mem *core.Tensor, at int64) error {
	for i := range p.jobs {
		j := &p.jobs[i]
		if !j.w.converts() {
			to := bytes[j.to-p.to:]
			for row := range j.rows {
				copy(to[row*j.run:][:j.run], data[j.from+row*j.stride:])
			}
			continue
		}
		begin := addressOf(data) - addressOf(in.data) + j.from
		if size, whole := j.w.e.DType.ItemSize(); whole && begin%size != 0 { // then it is the only job of its piece
			copy(in.data, data)
			begin = 0
		}
		if err := j.convert(ctx, mem, at+j.to-p.to, in.host(), in.at+begin); err != nil {
			return err
		}
	}
	return nil
}

// host returns the buffer as the host sees it.
func (s *stagingBuffer) host() *core.Tensor {
	if s.view != nil {
		return s.view
	}
	return s.mem
}

// convert converts the rows of a job from a byte of src to a byte of dst.
func (j *job) convert(ctx context.Context, dst *core.Tensor, to int64, src *core.Tensor, from int64) error {
	shape := []int64{j.rows, j.elems}
	x, err := typedOf(src, from, core.Spec{DType: j.w.e.DType, Shape: shape, Strides: []int64{j.w.cut.step, 1}})
	if err != nil {
		return err
	}
	defer func() { _ = x.Close() }()
	y, err := typedOf(dst, to, core.Spec{DType: j.w.cut.dtype, Shape: shape})
	if err != nil {
		return err
	}
	defer func() { _ = y.Close() }()
	return core.Convert(ctx, y, x)
}
