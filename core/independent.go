package core

import (
	"cmp"
	"slices"
)

// Independent is Independent of package backendkit.
func (privateCore) Independent(dst, src []*Tensor) bool {
	if len(dst) < 2 {
		return true
	}
	var l spans
	l.list = make([]span, 0, 2*len(dst))
	for _, t := range dst {
		l.add(t, true)
	}
	for _, t := range src {
		l.add(t, false)
	}
	slices.SortFunc(l.list, span.compare)
	var reached, written int64 // how far the spans before reach, and those that are written
	for i, x := range l.list {
		if i == 0 || l.list[i-1].space != x.space || l.list[i-1].object != x.object {
			reached, written = x.low, x.low
		}
		if x.low < written || x.writes && x.low < reached {
			return false
		}
		reached = max(reached, x.high)
		if x.writes {
			written = max(written, x.high)
		}
	}
	return true
}

// span is the bytes of a tensor, as positions in an address space or a file.
type span struct {
	object    uintptr // of addressSpace, or the number of a file
	low, high int64
	space     int // in spans.spaces
	writes    bool
}

// compare orders spans by their place.
func (a span) compare(b span) int {
	switch {
	case a.space != b.space:
		return cmp.Compare(a.space, b.space)
	case a.object != b.object:
		return cmp.Compare(a.object, b.object)
	}
	return cmp.Compare(a.low, b.low)
}

// spans is the bytes of tensors under each name that they are known by.
type spans struct {
	list   []span
	spaces []DeviceID // of the address spaces with bytes that are written, which come first; files are of type fileSpace
	files  map[file]uintptr
}

// fileSpace stands for the type of the device in the address space of a file.
const fileSpace DeviceType = -1

// add adds the bytes of t: those of its buffer, and of the buffer that this one was made of.
func (l *spans) add(t *Tensor, writes bool) {
	b, err := t.Buffer()
	if err != nil || t.IsEmpty() {
		return
	}
	low, high := t.reach()
	at := t.offset - b.mem.Offset
	l.addBuffer(b, at, low, high, writes)
	if root, rootAt := b.root(); root != b {
		l.addBuffer(root, at+rootAt, low, high, writes)
	}
}

// addBuffer adds the bytes from low to high, which count from the byte at a position of b.
func (l *spans) addBuffer(b *Buffer, at, low, high int64, writes bool) {
	b.mem.addressSpaces(func(s addressSpace, first int64) {
		l.addSpan(s.id, span{object: s.object, low: first + at + low, high: first + at + high, writes: writes})
	})
	if f, first, ok := b.inFile(at); ok {
		if l.files == nil {
			l.files = make(map[file]uintptr)
		}
		if l.files[f] == 0 {
			l.files[f] = uintptr(len(l.files) + 1)
		}
		l.addSpan(DeviceID{Type: fileSpace}, span{object: l.files[f], low: first + low, high: first + high, writes: writes})
	}
}

// addSpan adds a span, unless nothing is written in its space.
func (l *spans) addSpan(id DeviceID, x span) {
	x.space = slices.Index(l.spaces, id)
	if x.space < 0 {
		if !x.writes {
			return
		}
		x.space = len(l.spaces)
		l.spaces = append(l.spaces, id)
	}
	l.list = append(l.list, x)
}
