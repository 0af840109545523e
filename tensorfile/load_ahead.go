package tensorfile

const (
	// largeHeader is the number of bytes of a header from which on elements are read while it is being read.
	largeHeader = 64 << 10
	// firstAhead is the size of the first group that is read so. Each one is twice as large as the one before.
	firstAhead = 4 << 20
)

// ahead has the small tensors of a file read while its header is still being read. It makes the groups that straight
// would make, but smaller ones at first, so that reading begins soon. If the header proves to be malformed, all that was
// done is dropped.
type ahead struct {
	*runner
	s          *shard
	begun      bool  // add was called
	done       bool  // there is nothing more to do
	base       int64 // the position in the file from which offsets count
	begin, end int64 // the offsets of the tensors that are not in a group yet
	limit      int64 // on the size of a group
	err        error // why done was set early; nil if that is no error
}

// all reports whether all tensors of a file are wanted as they are.
func (l *loader) all() bool {
	o := &l.options
	return len(o.Only) == 0 && len(o.Slices) == 0 && o.DType.Bits == 0 && o.Checksum == NoChecksum && o.Read != ReadMap
}

// add is called for each tensor.
func (a *ahead) add(e *entry, base, size int64) {
	if !a.begun {
		a.begun, a.base, a.limit = true, base, firstAhead
		if a.done = a.done || base < largeHeader || size < worthDirect; !a.done {
			a.s.asItIs = true
			a.err = a.chooseRead(a.ctx, a.s, base, base+size, size)
			a.done = a.err != nil || a.s.direct == nil
		}
	}
	if a.done {
		return
	}
	if e.Offset != a.end || e.Bytes > size-a.end { // another order, or an error
		a.flush()
		a.done = true
		return
	}
	item, whole := e.DType.ItemSize()
	if e.Bytes >= smallTensor || e.Bytes > a.limit-(a.end-a.begin) || whole && (e.Offset-a.begin)%item != 0 {
		a.flush()
	}
	a.end += e.Bytes
	if e.Bytes >= smallTensor {
		a.begin = a.end // it has a group of its own
	}
}

// flush makes a group and pieces of the tensors that are not in one yet, unless they are too few.
func (a *ahead) flush() {
	n := a.end - a.begin
	if a.done || n < nearby {
		a.begin = a.end
		return
	}
	g := &group{size: n, straight: a.s, begin: a.base + a.begin}
	a.groups = append(a.groups, g)
	a.s.ahead = append(a.s.ahead, g)
	a.begin, a.limit = a.end, min(2*a.limit, largestGroup)
	if a.err = a.allocate(a.ctx, g); a.err == nil {
		for p := range a.straightPieces(g) {
			if a.err = a.feed(&p); a.err != nil {
				break
			}
		}
	}
	a.done = a.err != nil
}
