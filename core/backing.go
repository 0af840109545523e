package core

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Backing names bytes by the file behind the descriptors that stand for them: two
// mappings or imports of one file are the same memory, whatever their addresses and
// handles are.
type Backing struct {
	file   file
	offset int64 // of the memory's first byte, in what the descriptors stand for
}

// file identifies what a descriptor stands for.
type file struct {
	kind          HandleType // offsets count from the start of what it names
	device, inode uint64
}

// Backing identifies the buffer that m stands for, nil where m has no descriptor or
// the system does not tell what is behind it. It does for regular files, which memfds
// are, and the memory of lavapipe and of other drivers on the CPU is; and for dma-bufs,
// each of which has an inode of its own since Linux 5.3. It is nil for opaque descriptors
// of other drivers, which all have the inode of one device file.
//
// Devices note it in [Memory.Backing] when they import memory, and by
// [Buffer.Exported] when they export some.
func (m ExternalMemory) Backing() *Backing {
	t := m.Handle.Type()
	if !t.IsFD() {
		return nil
	}
	fd, err := m.Handle.Number()
	if err != nil {
		return nil
	}
	device, inode, ok := identify(int(fd), t == HandleDMABuf)
	if !ok {
		return nil
	}
	return &Backing{file{t, device, inode}, m.Offset}
}

// backed lists what has a known file behind it, by where it lies: memory may come back
// under the address or the handle that it has, without its buffer, as by DLPack.
var backed struct {
	any  atomic.Int32 // how many there are: mostly none
	mu   sync.Mutex
	list map[space][]stretch
}

// space is what addresses count in: the host's memory, that of a device, or an object.
type space struct {
	id     DeviceID
	object uintptr // the handle where id.Type.OpaqueHandle()
}

// stretch is the memory of a buffer in a space.
type stretch struct {
	buffer   *Buffer
	from, to int64
}

// spaces calls f for each space that the memory is known to lie in, and where there.
func (m *Memory) spaces(f func(s space, first int64)) {
	switch {
	case m.ID.Type.HostAccessible():
		f(space{id: CPU}, m.address())
	case m.ID.Type.OpaqueHandle():
		f(space{m.ID, m.Handle}, m.Offset)
	default:
		f(space{id: m.ID}, m.address())
	}
	if m.Host != 0 {
		f(space{id: CPU}, int64(m.Host))
	}
}

// noteBacked lists a buffer whose backing is known. forgetBacked takes that back.
func (b *Buffer) noteBacked() {
	if b.mem.Size <= 0 {
		return
	}
	backed.mu.Lock()
	defer backed.mu.Unlock()
	b.unlist()
	if backed.list == nil {
		backed.list = make(map[space][]stretch)
	}
	b.mem.spaces(func(s space, first int64) {
		backed.list[s] = append(backed.list[s], stretch{b, first, first + b.mem.Size})
	})
	backed.any.Add(1)
}

func (b *Buffer) forgetBacked() {
	backed.mu.Lock()
	defer backed.mu.Unlock()
	b.unlist()
}

// unlist takes a buffer out. backed.mu is held.
func (b *Buffer) unlist() {
	had := false
	b.mem.spaces(func(s space, _ int64) {
		before := len(backed.list[s])
		rest := slices.DeleteFunc(backed.list[s], func(x stretch) bool { return x.buffer == b })
		had = had || len(rest) < before
		if len(rest) > 0 {
			backed.list[s] = rest
		} else {
			delete(backed.list, s)
		}
	})
	if had {
		backed.any.Add(-1)
	}
}

// inFile is where the byte that lies at bytes behind the first lies in a file, if that is known.
func (b *Buffer) inFile(at int64) (f file, offset int64, ok bool) {
	if k := b.backing(); k != nil {
		return k.file, k.offset + at, true
	}
	if backed.any.Load() == 0 {
		return f, 0, false
	}
	backed.mu.Lock()
	defer backed.mu.Unlock()
	b.mem.spaces(func(s space, first int64) {
		for _, x := range backed.list[s] {
			if k := x.buffer.backing(); k != nil && x.from <= first+at && first+at < x.to {
				f, offset, ok = k.file, k.offset+first+at-x.from, true
			}
		}
	})
	return f, offset, ok
}
