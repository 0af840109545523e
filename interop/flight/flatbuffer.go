package flight

import "encoding/binary"

// flatbuffer is a message in the format FlatBuffers that another process has made. Reading outside of it, or
// something malformed, gives zeros and sets broken, so that callers check once.
type flatbuffer struct {
	data   []byte
	broken bool
}

// table is a table in a flatbuffer. The zero table has no fields.
type table struct {
	f      *flatbuffer
	at     int // of the table
	vtable int // the places of the fields
	slots  int // how many fields the writer knew
	size   int // of the table in bytes
}

// bytes returns n bytes, or nil if they are outside.
func (f *flatbuffer) bytes(at, n int) []byte {
	if at < 0 || n < 0 || n > len(f.data) || at > len(f.data)-n {
		f.broken = true
		return nil
	}
	return f.data[at : at+n]
}

func (f *flatbuffer) u16(at int) int {
	if b := f.bytes(at, 2); b != nil {
		return int(binary.LittleEndian.Uint16(b))
	}
	return 0
}

func (f *flatbuffer) i32(at int) int32 {
	if b := f.bytes(at, 4); b != nil {
		return int32(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (f *flatbuffer) i64(at int) int64 {
	if b := f.bytes(at, 8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// length returns a number that counts bytes or elements, which may not be greater than the message.
func (f *flatbuffer) length(at int) int {
	n := f.i32(at)
	if n < 0 || int(n) > len(f.data) {
		f.broken = true
		return 0
	}
	return int(n)
}

// follow returns where the reference at a place leads. References only lead forward.
func (f *flatbuffer) follow(at int) int {
	n := f.length(at)
	if n == 0 {
		f.broken = true
	}
	return at + n
}

// root returns the table that the message is.
func (f *flatbuffer) root() table { return f.table(f.follow(0)) }

// table returns the table at a place.
func (f *flatbuffer) table(at int) table {
	back := int64(f.i32(at))
	vtable := int64(at) - back
	if f.broken || vtable < 0 || vtable > int64(len(f.data)) {
		f.broken = true
		return table{}
	}
	t := table{f: f, at: at, vtable: int(vtable)}
	n := f.u16(t.vtable)
	t.size = f.u16(t.vtable + 2)
	f.bytes(t.vtable, n)
	f.bytes(at, t.size)
	if f.broken || n < 4 || n%2 != 0 || t.size < 4 {
		f.broken = true
		return table{}
	}
	t.slots = (n - 4) / 2
	return t
}

// field returns where a field of n bytes is, or 0 if the table does not have it.
func (t table) field(slot, n int) int {
	if t.f == nil || slot >= t.slots {
		return 0
	}
	off := t.f.u16(t.vtable + 4 + 2*slot)
	if off == 0 {
		return 0
	}
	if off < 4 || off+n > t.size {
		t.f.broken = true
		return 0
	}
	return t.at + off
}

func (t table) u8(slot int) uint8 {
	if at := t.field(slot, 1); at != 0 {
		if b := t.f.bytes(at, 1); b != nil {
			return b[0]
		}
	}
	return 0
}

func (t table) i16(slot int) int16 {
	if at := t.field(slot, 2); at != 0 {
		return int16(t.f.u16(at))
	}
	return 0
}

func (t table) i32(slot int) int32 {
	if at := t.field(slot, 4); at != 0 {
		return t.f.i32(at)
	}
	return 0
}

func (t table) i64(slot int) int64 {
	if at := t.field(slot, 8); at != 0 {
		return t.f.i64(at)
	}
	return 0
}

// table returns the table that a field refers to, and whether there is one.
func (t table) table(slot int) (table, bool) {
	at := t.field(slot, 4)
	if at == 0 {
		return table{}, false
	}
	x := t.f.table(t.f.follow(at))
	return x, x.f != nil
}

// vector returns the place of the first element of a vector with elements of size bytes, and their number.
func (t table) vector(slot, size int) (at, n int) {
	ref := t.field(slot, 4)
	if ref == 0 {
		return 0, 0
	}
	at = t.f.follow(ref)
	n = t.f.length(at)
	if t.f.bytes(at+4, n*size); t.f.broken {
		return 0, 0
	}
	return at + 4, n
}

// raw returns the bytes of a string, which are those of the message.
func (t table) raw(slot int) []byte {
	at, n := t.vector(slot, 1)
	return t.f.bytes(at, n)
}

// text returns a copy of a string.
func (t table) text(slot int) string { return string(t.raw(slot)) }
