package tensorfile

// builder packs tensors into groups, and puts near parts of the file together into pieces. It is for tensors whose
// memory is not a range of the file as it is, and for small ones that lie alone.
type builder struct {
	l    *loader
	s    *shard
	g    *group // that is being filled; nil if there is none
	open piece  // that is being filled, if it has jobs
}

// add adds a tensor.
func (b *builder) add(w *want) {
	if b.g != nil && (w.size() >= smallTensor || b.g.size+w.size() > largestGroup) {
		b.flush()
	}
	if b.g == nil {
		b.g = &group{}
		b.l.groups = append(b.l.groups, b.g)
	}
	g := b.g
	w.g, w.to = g, (g.size+packing-1)&^(packing-1)
	g.size = w.to + w.size()
	g.wants = append(g.wants, w)
	b.cut(w)
	if w.size() >= smallTensor {
		b.flush()
	}
}

// cut makes jobs of a tensor that each fit into a piece.
func (b *builder) cut(w *want) {
	limit, c := b.l.piece, w.asCut()
	bits := int64(w.e.DType.Bits) * int64(w.e.DType.Lanes)
	to := int64(c.dtype.Bits) * int64(c.dtype.Lanes)
	bytes := func(elems, bits int64) int64 { return (elems*bits + 7) / 8 }
	// As many rows as fit, if what lies between them is not too much to read.
	if per := bytes(c.elems, to); c.run <= limit && per <= limit && c.stride-c.run <= nearby {
		most := min((limit-c.run)/c.stride+1, limit/per)
		for row := int64(0); row < c.rows; row += most {
			rows := min(most, c.rows-row)
			b.put(c.first+row*c.stride, (rows-1)*c.stride+c.run, job{
				w: w, rows: rows, elems: c.elems, run: c.run, stride: c.stride, to: w.to + row*per, size: bytes(rows*c.elems, to), start: row * c.run,
			})
		}
		return
	}
	// A multiple of 8 elements is whole bytes of every type.
	most := max(limit*8/max(bits, to)&^7, 8)
	for row := range c.rows {
		for e := int64(0); e < c.elems; e += most {
			n := min(most, c.elems-e)
			b.put(c.first+row*c.stride+bytes(e, bits), bytes(n, bits), job{
				w: w, rows: 1, elems: n, run: bytes(n, bits), to: w.to + bytes(row*c.elems+e, to), size: bytes(n, to), start: row*c.run + bytes(e, bits),
			})
		}
	}
}

// put adds a job for a range of the file to the open piece, or to a new one.
func (b *builder) put(off, n int64, j job) {
	p := &b.open
	size, whole := j.w.e.DType.ItemSize()
	odd := whole && j.w.converts() && off%size != 0 // has to be moved to where its elements are aligned
	if len(p.jobs) > 0 && (odd || off-p.off-p.n > nearby || off < p.off+p.n || off+n-p.off > b.l.piece || j.to+j.size-p.to > b.l.piece) {
		b.end()
	}
	if len(p.jobs) == 0 {
		*p = piece{s: b.s, off: off, g: b.g, to: j.to}
	}
	j.from, j.index = off-p.off, len(b.g.wants)-1
	p.n, p.size = off+n-p.off, j.to+j.size-p.to
	p.jobs = append(p.jobs, j)
	if odd {
		b.end()
	}
}

// end ends the open piece.
func (b *builder) end() {
	if len(b.open.jobs) == 0 {
		return
	}
	p := b.open
	b.open = piece{}
	if j := p.jobs[0]; len(p.jobs) == 1 && j.rows == 1 && !j.w.converts() {
		p.jobs, p.first = nil, j.index // as it is
	}
	b.l.pieces = append(b.l.pieces, p)
}

// flush ends the group.
func (b *builder) flush() {
	b.end()
	b.g = nil
}
