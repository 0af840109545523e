//go:build vulkan && linux && cgo

package vulkan

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// Copies of a batch are one command buffer; those from and to the host add one piece of work of the host.
func TestABatchIsSubmittedOnce(t *testing.T) {
	d := opened(t, separateMemory)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const n = 200
	var up, here, down batchLists
	contents, back := make([][]byte, n), make([][]byte, n)
	for i := range n {
		contents[i], back[i] = pattern(1000+i, uint64(i)), make([]byte, 1000+i)
		a, b := row(t, d, int64(1000+i), core.AllocOptions{}), row(t, d, int64(1000+i), core.AllocOptions{})
		up.add(a, keep(t)(core.FromSlice(contents[i])))
		here.add(b, a)
		down.add(keep(t)(core.FromSlice(back[i])), b)
	}
	for _, c := range []struct {
		name  string
		lists batchLists
		items uint64
	}{{"to the device", up, 2}, {"within the device", here, 1}, {"to the host", down, 2}} {
		before := numberOf(s)
		if err := d.(core.BatchCopier).CopyBatch(t.Context(), s, c.lists.dst, c.lists.src); err != nil {
			t.Fatal(err)
		}
		if got := numberOf(s) - before; got > c.items {
			t.Errorf("%s: %d items of work, want %d", c.name, got, c.items)
		}
	}
	for i := range n {
		if err := down.dst[i].WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back[i], contents[i]) {
			t.Errorf("tensor %d came back changed", i)
		}
	}
}

type batchLists struct{ dst, src []*core.Tensor }

func (b *batchLists) add(dst, src *core.Tensor) {
	b.dst, b.src = append(b.dst, dst), append(b.src, src)
}

// numberOf returns the number of the newest item of a stream.
func numberOf(s core.Stream) uint64 {
	q := s.(*queue)
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.Newest()
}
