package benchmarks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// pieceSize is how many bytes come from the random number generator, which is slower than a copy. A later piece has the same
// words, with a number added to each. No two pieces have the same number.
const pieceSize = 64 << 10

// content is the bytes of a seed, piece by piece: other ones for each seed, without a period.
type content struct {
	first []byte // whole words
	added uint64
}

// contentOf returns the content of a seed for size bytes.
func contentOf(seed uint64, size int) *content {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	c := &content{first: make([]byte, min(pieceSize, (size+7)&^7))}
	_, _ = rand.NewChaCha8(key).Read(c.first) // it never fails
	return c
}

// next writes the next piece, or the begin of it.
func (c *content) next(piece []byte) {
	words := c.first
	for ; len(piece) >= 8; piece, words = piece[8:], words[8:] {
		binary.LittleEndian.PutUint64(piece, binary.LittleEndian.Uint64(words)+c.added)
	}
	if len(piece) > 0 {
		copy(piece, binary.LittleEndian.AppendUint64(nil, binary.LittleEndian.Uint64(words)+c.added))
	}
	c.added += 0x9e3779b97f4a7c15 // odd, so that it takes all values
}

// fill writes the content of a seed.
func fill(b []byte, seed uint64) {
	c := contentOf(seed, len(b))
	for piece := range slices.Chunk(b, pieceSize) {
		c.next(piece)
	}
}

// The seeds of what is sent, and of what lies at the destination before.
const (
	sentSeed   = 1 // and those that follow, for several sources
	beforeSeed = 1 << 32
)

// compare compares what arrived with the content of a seed. before is the seed of what lay there before.
func compare(got []byte, seed, before uint64) *Mismatch {
	want, c := make([]byte, min(pieceSize, len(got))), contentOf(seed, len(got))
	for piece := range slices.Chunk(got, pieceSize) {
		want := want[:len(piece)]
		c.next(want)
		if !bytes.Equal(want, piece) {
			whole, old := make([]byte, len(got)), make([]byte, len(got))
			fill(whole, seed)
			fill(old, before)
			return explain(whole, got, old)
		}
	}
	return nil
}

// explain describes how got differs from want, nil if it does not. before is what lay there before the copy, nil if that is
// not known. All have the same length.
func explain(want, got, before []byte) *Mismatch {
	m := &Mismatch{Offset: -1, Of: int64(len(want))}
	wrongBits := 0
	for i := range want {
		if want[i] != got[i] {
			if m.Wrong++; m.Wrong == 1 {
				m.Offset = int64(i)
			}
			wrongBits += bits.OnesCount8(want[i] ^ got[i])
		}
	}
	if m.Wrong == 0 {
		return nil
	}
	first := int(m.Offset)
	end := min(first+8, len(want))
	m.Want, m.Got = fmt.Sprintf("% x", want[first:end]), fmt.Sprintf("% x", got[first:end])
	m.Bits = differingBits(want[first:end], got[first:end])
	m.Text = fmt.Sprintf("%d of %d bytes that arrived are wrong, the first at offset %d (%#x): %s instead of %s, which differ in %s; %s",
		m.Wrong, m.Of, m.Offset, m.Offset, m.Got, m.Want, m.Bits, likelyCause(want, got, before, first, wrongBits))
	return m
}

// differingBits names the bits that differ, or their number if they are many.
func differingBits(want, got []byte) string {
	const most = 8
	var list []string
	for i := range want {
		for bit := range 8 {
			if (want[i]^got[i])>>bit&1 != 0 {
				list = append(list, fmt.Sprintf("bit %d of byte %d", bit, i))
			}
		}
	}
	if len(list) > most {
		return fmt.Sprintf("%d bits", len(list))
	}
	return strings.Join(list, ", ")
}

// pageBytes is the unit in which systems and drivers handle memory.
const pageBytes = 4096

// likelyCause says in words what bytes that are wrong from first on look like.
func likelyCause(want, got, before []byte, first, wrongBits int) string {
	const sample = 64 // bytes that do not agree by chance
	end := min(first+sample, len(got))
	if wrongBits == 1 {
		return "a single bit: memory or a bus that fails, or work that wrote to it meanwhile"
	}
	zeros := first
	for zeros < len(got) && got[zeros] == 0 {
		zeros++
	}
	if zeros-first >= min(sample, len(got)-first) {
		what := "zeros"
		if begin := first &^ (pageBytes - 1); first-begin < 8 && (zeros-begin >= pageBytes || zeros == len(got)) {
			what = fmt.Sprintf("pages of zeros, up to offset %d", zeros)
		}
		return what + ": memory that was never written"
	}
	if before != nil && bytes.Equal(got[first:end], before[first:end]) {
		return "these are the bytes from before the copy: it did not write them, or its write came later than the read"
	}
	for n := 1; n <= pageBytes && end-first >= 8; n++ {
		for _, by := range []int{n, -n} {
			from := first - by // where these bytes should be
			if from >= 0 && from+end-first <= len(want) && bytes.Equal(got[first:end], want[from:from+end-first]) {
				return fmt.Sprintf("the bytes are shifted by %d: an offset or a stride is wrong", by)
			}
		}
	}
	return "they are neither zeros, nor old, nor shifted: another write to the same memory, or a damaged one"
}

// place is memory at one end of a copy.
type place struct {
	device core.Device  // that can copy it
	tensor *core.Tensor // of bytes
	host   *core.Tensor // the same memory as the host sees it, nil if it does not
}

// arrivedAt is the place of a tensor of bytes that has come to d.
func arrivedAt(d core.Device, t *core.Tensor) place {
	p := place{device: d, tensor: t}
	if t.DeviceID().Type.HostAccessible() {
		p.host = t
	}
	return p
}

// write writes the content of a seed.
func (e *env) write(p place, seed uint64) error {
	if p.host != nil {
		b, err := core.Mutable[uint8](p.host)
		if err == nil {
			fill(b, seed)
		}
		return err
	}
	return e.through(p, func(s core.Stream, between *core.Tensor) error {
		b, err := core.Mutable[uint8](between)
		if err != nil {
			return err
		}
		fill(b, seed)
		return p.device.Copy(e.ctx, s, p.tensor, between)
	})
}

// check compares the content of a place with that of a seed.
func (e *env) check(p place, seed, before uint64) (*Mismatch, error) {
	return e.checkBytes(p, func(got []byte) *Mismatch { return compare(got, seed, before) })
}

// checkBytes has the bytes of a place compared.
func (e *env) checkBytes(p place, compare func(got []byte) *Mismatch) (m *Mismatch, err error) {
	compareHost := func(t *core.Tensor) error {
		b, err := core.Values[uint8](t)
		if err == nil {
			m = compare(b)
		}
		return err
	}
	if p.host != nil {
		err = compareHost(p.host)
		return m, err
	}
	err = e.through(p, func(s core.Stream, between *core.Tensor) error {
		if err := p.device.Copy(e.ctx, s, between, p.tensor); err != nil {
			return err
		}
		return compareHost(between)
	})
	return m, err
}

// through calls f with memory of the host that is as large as p.
func (e *env) through(p place, f func(s core.Stream, between *core.Tensor) error) error {
	host, err := e.device()
	if err != nil {
		return err
	}
	between, err := core.Empty(e.ctx, host, core.TypeUint8, p.tensor.Shape(), core.AllocOptions{})
	if err != nil {
		return err
	}
	defer between.Close()
	return f(nil, between)
}
