//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// sparse is a device of the host, whose pages take no memory before they are written.
type sparse struct{ core.Device }

type mapping []byte

func (m mapping) Free() { _ = unix.Munmap(m) }

func (s sparse) Alloc(_ context.Context, size int64, _ core.AllocOptions) (core.Memory, error) {
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return core.Memory{}, err
	}
	if err := unix.Madvise(m, unix.MADV_NOHUGEPAGE); err != nil {
		return core.Memory{}, errors.Join(err, unix.Munmap(m))
	}
	return core.Memory{ID: core.CPU, Device: s, Handle: uintptr(unsafe.Pointer(unsafe.SliceData(m))), Size: size, Owner: mapping(m)}, nil
}

// A tensor of more bytes than 32 bits can count is sent, and read by rows: each byte is right.
func TestHugeTensor(t *testing.T) {
	if os.Getenv("DLX_THOROUGH") != "1" || testing.Short() {
		t.Skip("it needs 8 GiB of memory: DLX_THOROUGH=1 and no -short run it")
	}
	const rows, row1 = 8 << 10, 1 << 20
	d := sparse{host(t)}
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{rows, row1}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	elements := func(y *core.Tensor) []byte {
		a, err := y.Address()
		if err != nil {
			t.Fatal(err)
		}
		return unsafe.Slice((*byte)(addressOf(a)), y.NumBytes())
	}
	// Each row has its number, at a place that depends on it.
	for i, all := 0, elements(x); i < rows; i++ {
		le.PutUint32(all[i*row1+i*97%(row1-4):], uint32(i)+1)
	}
	a, b := connect(t, Options{})
	sent := make(chan error, 1)
	go func() { _, err := a.Send(t.Context(), x); sent <- err }()
	y, r, err := b.Receive(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if err := <-sent; err != nil || r.Bytes != rows*row1 {
		t.Errorf("Send: %v, %v", err, r)
	}
	if !bytes.Equal(elements(x), elements(y)) {
		t.Error("the elements differ")
	}
	f := offer(t, a, x, OfferOptions{})
	for _, first := range []int64{0, 2047, 4095, 4096, rows - 2} { // at 2 GiB, 4 GiB and the end
		z, _, err := b.FetchRows(t.Context(), f.Descriptor(), first, first+2, d)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(elements(z), elements(x)[first*row1:(first+2)*row1]) {
			t.Errorf("rows from %d on differ", first)
		}
		_ = z.Close()
	}
}
