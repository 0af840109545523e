package backendtest

import (
	"bytes"
	"errors"

	"github.com/dlx-go/dlx/core"
)

var batchCases = []Case{
	{
		Name:  "batch/copies",
		Rule:  "core.BatchCopier.CopyBatch: does what Copy does for each dst[i] and src[i]; no other byte changes",
		Needs: core.CapBatchCopy,
		run:   caseBatchCopies,
	},
	{
		Name:  "batch/in-order",
		Rule:  "core.BatchCopier.CopyBatch: a later copy sees what an earlier one has written",
		Needs: core.CapBatchCopy,
		run:   caseBatchInOrder,
	},
	{
		Name:  "batch/waits",
		Rule:  "core.BatchCopier.CopyBatch: the copies wait for the last write of every src and for all work on every dst",
		Needs: core.CapBatchCopy | core.CapAsync,
		run:   caseBatchWaits,
	},
	{
		Name:  "batch/ready",
		Rule:  "core.BatchCopier.CopyBatch: the work becomes the last write of every dst and a use of every src, which may be closed",
		Needs: core.CapBatchCopy | core.CapAsync,
		run:   caseBatchReady,
	},
	{
		Name:  "batch/errors",
		Rule:  "core.BatchCopier.CopyBatch: fails for lists of different lengths, and as backendkit.CheckCopy does, before any copy",
		Needs: core.CapBatchCopy,
		run:   caseBatchErrors,
	},
}

// batch is the lists of a call of CopyBatch, and what the tensors of dst lie in afterwards.
type batch struct {
	dst, src []*core.Tensor
	want     [][]byte
}

// add adds a copy between two images.
func (b *batch) add(dst, src *core.Tensor, want []byte) {
	b.dst, b.src, b.want = append(b.dst, dst), append(b.src, src), append(b.want, want)
}

func caseBatchCopies(e *env) {
	copier := as[core.BatchCopier](e)
	e.check(copier.CopyBatch(e.ctx, nil, nil, nil), "CopyBatch of no tensors")
	for _, s := range []core.Stream{nil, e.stream()} {
		var b batch
		for i, l := range []strided{
			{shape: []int64{1000}}, {shape: []int64{1}}, {shape: []int64{0}}, {shape: []int64{1<<20 + 4096}},
			{shape: []int64{5, 7}, dst: []int64{1, 5}}, {shape: []int64{5, 7}, src: []int64{-7, 2}},
			{shape: []int64{40, 3}, dst: []int64{3, 1}, src: []int64{0, 1}}, {shape: []int64{4, 300}, dst: []int64{320, 1}, src: []int64{310, 1}},
			{shape: []int64{7_000, 2}, src: []int64{1, 7_000}}, {shape: []int64{17}},
		} {
			t := []core.DType{core.TypeUint8, core.TypeFloat32, core.TypeInt16}[i%3]
			here, there := e.newImage(t, 0, l.shape, l.dst, int64(i)), e.newImage(t, 0, l.shape, l.src, 0)
			b.add(e.onDevice(here), e.onDevice(there), here.copied(there))
			b.add(e.onDevice(here), e.onHost(there), here.copied(there))
			b.add(e.onHost(here), e.onDevice(there), nil)
			b.want[len(b.want)-1] = here.copied(there)
		}
		same := e.upload(e.pattern(100))
		b.add(same, same, e.download(same))
		for range 100 { // many small ones
			from := e.pattern(64)
			b.add(e.bytes(64), e.hostBytes(from), from)
		}
		e.check(copier.CopyBatch(e.ctx, s, b.dst, b.src), "CopyBatch of %d tensors", len(b.dst))
		if s == nil {
			for i, t := range b.dst {
				if !e.isDone(t.Ready()) {
					e.Errorf("dst[%d] is not ready when CopyBatch without a stream returns", i)
				}
			}
		}
		for i, t := range b.dst {
			e.check(t.WaitReady(e.ctx), "WaitReady of dst[%d]", i)
			if got := e.allocation(t); !bytes.Equal(got, b.want[i]) {
				e.Errorf("dst[%d], %v <- %v: %s", i, t, b.src[i], difference(got, b.want[i]))
			}
		}
	}
}

// allocation returns the whole memory that a tensor of the device or of the host lies in.
func (e *env) allocation(t *core.Tensor) []byte {
	e.Helper()
	if t.DeviceID() != core.CPU || e.dev.ID() == core.CPU {
		return e.memoryOf(t)
	}
	b, err := t.Buffer()
	e.check(err, "Buffer")
	whole, err := core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{b.Memory().Size}})
	content, err := core.ToSlice[byte](e.ctx, e.keep(whole, err))
	e.check(err, "ToSlice")
	return content
}

func caseBatchInOrder(e *env) {
	copier := as[core.BatchCopier](e)
	for _, s := range []core.Stream{nil, e.stream()} {
		var contents [4][]byte
		var x [4]*core.Tensor
		for i := range x {
			contents[i] = e.pattern(1000)
			x[i] = e.upload(contents[i])
		}
		front, err := x[3].Slice(0, 0, 500, 1)
		e.keep(front, err)
		back, err := x[3].Slice(0, 500, 1000, 1)
		e.keep(back, err)
		half, err := x[0].Slice(0, 500, 1000, 1)
		e.keep(half, err)
		// The first moves on, is overwritten, and what it was is put together again.
		dst := []*core.Tensor{x[1], x[2], x[0], front, back}
		last, err := x[2].Slice(0, 250, 750, 1)
		e.keep(last, err)
		src := []*core.Tensor{x[0], x[1], x[3], last, half}
		e.check(copier.CopyBatch(e.ctx, s, dst, src), "CopyBatch of copies that depend on each other")
		e.wantBytes(x[1], contents[0], "what was copied first")
		e.wantBytes(x[2], contents[0], "what was copied from the first result")
		e.wantBytes(x[0], contents[3], "what was overwritten after it was read")
		e.wantBytes(x[3], append(bytes.Clone(contents[0][250:750]), contents[3][500:]...), "what was written in two parts")
	}
}

func caseBatchWaits(e *env) {
	copier := as[core.BatchCopier](e)
	first, second := e.stream(), e.stream()
	const n = 5
	var dst, src []*core.Tensor
	var contents [n][]byte
	for i := range contents {
		contents[i] = e.pattern(1000)
		dst, src = append(dst, e.bytes(1000)), append(src, e.upload(e.pattern(1000)))
	}
	old := e.pattern(1000)
	e.write(dst[4], old)
	read, update := e.bytes(1000), e.hostBytes(contents[3])
	e.copy(nil, src[4], e.hostBytes(contents[4]))
	release, _ := e.hold(first)
	for i := range 3 { // src[3] is written by the batch's own stream, and dst[4] is read
		e.copy(first, src[i], e.hostBytes(contents[i]))
	}
	e.copy(first, read, dst[4])
	err := e.whileHeld(release, func() error {
		return errors.Join(e.dev.Copy(e.ctx, second, src[3], update), copier.CopyBatch(e.ctx, second, dst, src), second.Synchronize(e.ctx))
	})
	e.check(err, "CopyBatch of tensors that are being written")
	e.synchronize(first)
	for i := range dst {
		e.wantBytes(dst[i], contents[i], "what was copied from src[%d]", i)
	}
	e.wantBytes(read, old, "what an earlier reader of dst[4] got")
}

func caseBatchReady(e *env) {
	copier := as[core.BatchCopier](e)
	s := e.stream()
	var dst, src []*core.Tensor
	var contents [][]byte
	for range 6 {
		contents = append(contents, e.pattern(100))
		dst, src = append(dst, e.bytes(100)), append(src, e.upload(contents[len(contents)-1]))
	}
	release, sure := e.hold(s)
	e.check(copier.CopyBatch(e.ctx, s, dst, src), "CopyBatch")
	for i := range dst {
		if sure && e.isDone(dst[i].Ready()) {
			e.Errorf("dst[%d] is ready before the copies have begun", i)
		}
		if sure && len(e.pendingWork(src[i])) == 0 {
			e.Errorf("src[%d] has no pending work, but the copies have not begun", i)
		}
		_ = src[i].Close()
	}
	for range src { // memory that was given back too early would be these tensors'
		e.bytes(100)
	}
	release()
	for i := range dst {
		e.check(dst[i].WaitReady(e.ctx), "WaitReady of dst[%d]", i)
		e.wantBytes(dst[i], contents[i], "what was copied from src[%d], which was closed", i)
	}
	e.synchronize(s)
}

func caseBatchErrors(e *env) {
	copier := as[core.BatchCopier](e)
	content, other := e.pattern(16), e.pattern(15)
	good, from, bad := e.upload(content), e.upload(e.pattern(16)), e.upload(other)
	readOnly, err := bad.AsReadOnly()
	e.keep(readOnly, err)
	closed := e.bytes(16)
	_ = closed.Close()
	for _, c := range []struct {
		what     string
		dst, src []*core.Tensor
		want     error
	}{
		{"more to copy to", []*core.Tensor{good, bad}, []*core.Tensor{from}, core.ErrInvalid},
		{"more to copy from", []*core.Tensor{good}, []*core.Tensor{from, bad}, core.ErrInvalid},
		{"a read-only dst", []*core.Tensor{good, readOnly}, []*core.Tensor{from, bad}, core.ErrReadOnly},
		{"other shapes", []*core.Tensor{good, bad}, []*core.Tensor{from, from}, core.ErrLayout},
		{"a nil src", []*core.Tensor{good, bad}, []*core.Tensor{from, nil}, core.ErrInvalid},
		{"a closed src", []*core.Tensor{good, from}, []*core.Tensor{from, closed}, core.ErrClosed},
	} {
		for _, s := range []core.Stream{nil, e.stream()} {
			e.wantError(copier.CopyBatch(e.ctx, s, c.dst, c.src), c.want, "CopyBatch with %s", c.what)
		}
	}
	e.wantBytes(good, content, "dst[0] after the refused copies")
	e.wantBytes(bad, other, "dst[1] after the refused copies")
}
