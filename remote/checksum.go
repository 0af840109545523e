package remote

import (
	"context"
	"crypto/sha256"
	"hash"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
)

// Checksum returns the SHA-256 of the elements that the peer has offered, in row-major order, as the peer computes it. The
// checksum comes through the control connection, so a Fetch whose result has the same one (see [Sum]) was not changed on the
// way, by a fault or by somebody on the network. If the offer is writable, the elements may change in between.
//
// Rows start to stop are as for [Conn.FetchRows]. Checksum returns the errors of Fetch, and core.ErrNotSupported if the
// version of dlx that the peer uses has no checksums.
func (c *Conn) Checksum(ctx context.Context, descriptor []byte, start, stop int64) (sum [sha256.Size]byte, err error) {
	if c == nil || c.raw == nil {
		return sum, noConn("Checksum")
	}
	q, _, err := askRows(descriptor, start, stop)
	if err != nil {
		return sum, err
	}
	b, err := c.askFor(ctx, &q, controlSummed, controlSum, func(b []byte) []byte { return appendRequest(b, &q) })
	if err != nil {
		return sum, err
	}
	if len(b) != sha256.Size {
		c.fail(violation("a checksum has %d bytes, and needs %d", len(b), sha256.Size))
		return sum, c.Err()
	}
	return [sha256.Size]byte(b), nil
}

// serveSum computes the checksum of t.
func (c *Conn) serveSum(ctx context.Context, q *request, f *Offer, t *core.Tensor) error {
	if f.writable {
		if err := c.lock(ctx, f.busy); err != nil {
			return err
		}
		defer func() { <-f.busy }()
	}
	sum, err := Sum(ctx, t)
	if err != nil {
		return err
	}
	return c.tell(ctx, controlSummed, func(b []byte) []byte { return append(le.AppendUint64(b, q.id), sum[:]...) })
}

// Sum returns the SHA-256 of the elements of a tensor in row-major order. It waits for the last write to the tensor. Elements
// that the host cannot access come in pieces. Sum returns core.ErrInvalid if t is nil, or its memory is a mapped file that was
// truncated; core.ErrClosed if t is closed; core.ErrDevice if neither the host nor an opened device can access the
// elements; ctx's error, the error of the last write, and errors of the device.
func Sum(ctx context.Context, t *core.Tensor) (sum [sha256.Size]byte, err error) {
	if t == nil {
		return sum, invalid("Sum", "the tensor is nil")
	}
	if _, err := t.Buffer(); err != nil {
		return sum, err
	}
	h := sha256.New()
	source, err := elements(ctx, t, false, new(Report))
	if err == nil {
		err = hashInto(ctx, h, source)
	}
	if err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// hashInto hashes elements, which it owns.
func hashInto(ctx context.Context, h hash.Hash, source content) error {
	defer source.release()
	if source.bytes == 0 {
		return nil
	}
	var host *core.Tensor // where elements of a device come
	if source.device != nil {
		var err error
		if host, err = hostMemory(ctx, source.device.Device(), min(source.bytes, pieceBytes)); err != nil {
			return err
		}
		defer host.Close()
		if source.address, err = host.Address(); err != nil {
			return err
		}
	}
	for i := range pieces(source.bytes) {
		if err := ctx.Err(); err != nil {
			return err
		}
		offset, n := pieceAt(source.bytes, i)
		at := source.address + uintptr(offset)
		if host != nil {
			at = source.address
			if err := copyPart(ctx, source.device, host, part{i, offset, n}, true); err != nil {
				return err
			}
		}
		data := unsafe.Slice((*byte)(addressOf(at)), n)
		if gone := memfault.Guard(memfault.Within(data), func() { h.Write(data) }); gone != nil {
			return invalid("Sum", "the elements cannot be read: %v: was a mapped file truncated?", gone)
		}
	}
	return nil
}

// addressOf is the pointer to memory that a tensor pins.
func addressOf(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
