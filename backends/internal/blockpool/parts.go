package blockpool

// larger returns an idle part that can be divided for class c, the smallest that there is, or nil.
func (p *Pool[C, B]) larger(c C) *Part[C, B] {
	if p.Resize == nil {
		return nil
	}
	most := share * c.Bytes()
	for bytes := RoundUp(c.Bytes()+1, 1); bytes <= most; bytes = RoundUp(bytes+1, 1) {
		s := p.shelves[p.Resize(c, bytes)]
		if s == nil {
			continue
		}
		for x := s.idle.newest; x != nil; x = x.older {
			if x.class.Bytes() <= most && x.divides(c.Bytes()) {
				return x
			}
		}
	}
	return nil
}

// divides reports whether what is left of the part after its first bytes is worth a part of its own.
func (x *Part[C, B]) divides(bytes int64) bool { return x.Size-bytes >= x.class.Bytes()/share }

// split leaves the first bytes in x, which is on no shelf and has no work, and puts the rest on a shelf, if that is worth it.
func (p *Pool[C, B]) split(x *Part[C, B], bytes int64) {
	if p.Resize == nil || !x.divides(bytes) {
		return
	}
	rest := &Part[C, B]{
		Block: x.Block, Offset: x.Offset + bytes, Size: x.Size - bytes, class: x.class,
		before: x, after: x.after,
	}
	if rest.after != nil {
		rest.after.before = rest
	}
	x.after, x.Size = rest, bytes
	p.shelve(rest)
}

// shelve puts a part on its shelf. If the part has no work, it first joins the idle parts beside it.
func (p *Pool[C, B]) shelve(x *Part[C, B]) {
	if len(x.pending) == 0 {
		if after := x.after; after.idle() {
			p.unshelve(after)
			x.absorb(after)
		}
		if before := x.before; before.idle() {
			p.unshelve(before)
			before.absorb(x)
			x = before
		}
	}
	p.Stats.Cached += x.Size
	x.period = p.clock.period
	c := x.class
	if !x.whole() {
		c = p.Resize(c, RoundDown(x.Size))
	}
	s := p.shelves[c]
	if s == nil {
		s = new(shelf[C, B])
		p.shelves[c] = s
	}
	x.shelf, x.busy = s, len(x.pending) > 0
	if x.busy {
		s.busy.push(x)
		return
	}
	s.idle.push(x)
	p.idle += x.Size
}

// absorb adds the part after x to x. Neither is on a shelf.
func (x *Part[C, B]) absorb(after *Part[C, B]) {
	x.Size += after.Size
	if x.after = after.after; x.after != nil {
		x.after.before = x
	}
}

// unshelve takes a part from its shelf.
func (p *Pool[C, B]) unshelve(x *Part[C, B]) {
	if x.busy {
		x.shelf.busy.remove(x)
	} else {
		x.shelf.idle.remove(x)
		p.idle -= x.Size
	}
	x.shelf, x.busy = nil, false
	p.Stats.Cached -= x.Size
}

// settle makes the parts idle whose work is done, and reports whether there are any.
func (p *Pool[C, B]) settle() bool {
	var over []*Part[C, B]
	for _, s := range p.shelves {
		for x := s.busy.oldest; x != nil; x = x.newer {
			if x.over() {
				over = append(over, x)
			}
		}
	}
	for _, x := range over {
		p.unshelve(x)
		p.shelve(x)
	}
	return len(over) > 0
}

// list is a list of parts of a shelf, by the time at which they were freed.
type list[C Class, B any] struct{ oldest, newest *Part[C, B] }

func (l *list[C, B]) push(x *Part[C, B]) {
	x.older, x.newer = l.newest, nil
	if l.newest != nil {
		l.newest.newer = x
	} else {
		l.oldest = x
	}
	l.newest = x
}

func (l *list[C, B]) remove(x *Part[C, B]) {
	if x.older != nil {
		x.older.newer = x.newer
	} else {
		l.oldest = x.newer
	}
	if x.newer != nil {
		x.newer.older = x.older
	} else {
		l.newest = x.older
	}
	x.older, x.newer = nil, nil
}
