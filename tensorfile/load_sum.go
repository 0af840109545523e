package tensorfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"hash/crc32"
)

// sum is the checksum of a tensor while it is computed.
type sum struct {
	hash hash.Hash
	done int64 // bytes so far
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newHash returns a hash of a kind that is not NoChecksum.
func (c Checksum) newHash() hash.Hash {
	if c == SHA256 {
		return sha256.New()
	}
	return crc32.New(castagnoli)
}

// text returns the checksum in hexadecimal digits.
func (s *sum) text(c Checksum) string {
	if s.hash == nil {
		s.hash = c.newHash()
	}
	return hex.EncodeToString(s.hash.Sum(nil))
}

// checksum adds the bytes of a piece to the checksums of its tensors. A tensor's bytes are added in their order, for
// which checksum waits until other threads have added those before. They do not wait for this one, since pieces are
// taken in the order of the file.
func (l *loader) checksum(ctx context.Context, p *piece, data []byte) error {
	if l.options.Checksum == NoChecksum {
		return nil
	}
	for i := range p.jobs {
		j := &p.jobs[i]
		err := p.g.inTurn(ctx, l.options.Checksum, j.w, j.start, func(h hash.Hash) int64 {
			for row := range j.rows {
				h.Write(data[j.from+row*j.stride:][:j.run])
			}
			return j.rows * j.run
		})
		if err != nil {
			return err
		}
	}
	if p.jobs != nil {
		return nil
	}
	for _, w := range p.g.wants[p.first:] {
		from, to := max(w.first(), p.off), min(w.end(), p.off+p.n)
		if from >= to {
			break
		}
		start := from - w.first()
		if c := w.cut; c.rows > 1 { // the piece lies in one row, and what is between the rows does not count
			start -= start / c.stride * (c.stride - c.run)
		}
		err := p.g.inTurn(ctx, l.options.Checksum, w, start, func(h hash.Hash) int64 {
			h.Write(data[from-p.off : to-p.off])
			return to - from
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inTurn calls add when the checksum of w has got to start, and adds the number of bytes that it returns.
func (g *group) inTurn(ctx context.Context, c Checksum, w *want, start int64, add func(hash.Hash) int64) error {
	if err := g.await(ctx, w, start); err != nil {
		return err
	}
	if w.cut.sum.hash == nil {
		w.cut.sum.hash = c.newHash()
	}
	n := add(w.cut.sum.hash) // nobody else is at this position
	g.mu.Lock()
	defer g.mu.Unlock()
	w.cut.sum.done += n
	g.turn.Broadcast()
	return nil
}

// await waits until the checksum of w has got to start, or ctx ends. Whoever ends ctx calls wake.
func (g *group) await(ctx context.Context, w *want, start int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w.cut.sum.done != start {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		g.turn.Wait()
	}
	return nil
}

// wake makes those who wait for a checksum look at their context.
func (g *group) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn.Broadcast()
}
