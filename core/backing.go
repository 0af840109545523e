package core

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Backing identifies memory by the file that a descriptor refers to and an offset in that
// file. Two mappings or imports of one file are the same memory, even if their addresses
// and handles differ. CheckCopy of package backendkit uses it to find tensors that share bytes.
type Backing struct {
	file   file
	offset int64 // bytes from the start of the file to the first byte of the memory
}

// file identifies the file that a descriptor refers to.
type file struct {
	kind          HandleType // offsets count from the start of the object that such a handle names
	device, inode uint64
}

// Backing returns the identity of the memory that m refers to. It returns nil if m has no
// descriptor, or if the system does not identify the file behind it. The system
// identifies regular files: a memfd is one, and so is the exported memory of lavapipe and
// of other drivers that run on the CPU. It also identifies dma-bufs, each of which has its
// own inode since Linux 5.3. It does not identify opaque descriptors of other drivers,
// which all have the inode of one device file. Backing does not close the descriptor, and
// its owner does not change.
//
// A device stores the result in [Memory.Backing] when it imports memory, and calls
// [Buffer.Exported] when it exports memory.
func (m ExternalMemory) Backing() *Backing {
	t := m.Handle.Type()
	if !t.IsFD() {
		return nil
	}
	if _, err := m.Handle.Number(); err != nil {
		return nil
	}
	id := m.Handle.file
	if !id.regular && t != HandleDMABuf {
		return nil
	}
	return &Backing{file{t, id.device, id.inode}, m.Offset}
}

// fileID is what the system says of the file that a descriptor refers to. The numbers do not identify device files and
// anonymous inodes, which are not regular.
type fileID struct {
	device, inode uint64
	regular       bool
}

// backed lists the buffers whose backing is known, by address space. Memory may come back
// with its address or handle but without its buffer, for example through DLPack; inFile
// then finds its backing here.
var backed struct {
	any  atomic.Int32 // number of buffers in list; usually 0, which makes inFile fast
	mu   sync.Mutex
	list map[addressSpace][]addressRange
}

// addressSpace is the memory of the host, the memory of a device, or one object of a
// device with opaque handles.
type addressSpace struct {
	id     DeviceID
	object uintptr // the handle, if id.Type.OpaqueHandle()
}

// addressRange is the memory of a buffer in an address space, from the first byte up to,
// but not including, the byte at to.
type addressRange struct {
	buffer   *Buffer
	from, to int64
}

// addressSpaces calls f for each address space that the memory is known to lie in, with the
// position of its first byte there.
func (m *Memory) addressSpaces(f func(s addressSpace, first int64)) {
	switch {
	case m.ID.Type.HostAccessible():
		f(addressSpace{id: CPU}, m.address())
	case m.ID.Type.OpaqueHandle():
		f(addressSpace{m.ID, m.Handle}, m.Offset)
	default:
		f(addressSpace{id: m.ID}, m.address())
	}
	if m.Host != 0 {
		f(addressSpace{id: CPU}, int64(m.Host))
	}
}

// noteBacked adds b, whose backing is known, to the list. forgetBacked removes it.
func (b *Buffer) noteBacked() {
	if b.mem.Size <= 0 {
		return
	}
	backed.mu.Lock()
	defer backed.mu.Unlock()
	b.unlist()
	if backed.list == nil {
		backed.list = make(map[addressSpace][]addressRange)
	}
	b.mem.addressSpaces(func(s addressSpace, first int64) {
		backed.list[s] = append(backed.list[s], addressRange{b, first, first + b.mem.Size})
	})
	backed.any.Add(1)
}

func (b *Buffer) forgetBacked() {
	backed.mu.Lock()
	defer backed.mu.Unlock()
	b.unlist()
}

// unlist removes b from the list, if it is there. backed.mu is held.
func (b *Buffer) unlist() {
	had := false
	b.mem.addressSpaces(func(s addressSpace, _ int64) {
		before := len(backed.list[s])
		rest := slices.DeleteFunc(backed.list[s], func(x addressRange) bool { return x.buffer == b })
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

// inFile returns the file that holds the byte at position at of the buffer, and the offset
// of that byte in the file. ok is false if they are not known.
func (b *Buffer) inFile(at int64) (f file, offset int64, ok bool) {
	if k := b.backing(); k != nil {
		return k.file, k.offset + at, true
	}
	if backed.any.Load() == 0 {
		return f, 0, false
	}
	backed.mu.Lock()
	defer backed.mu.Unlock()
	b.mem.addressSpaces(func(s addressSpace, first int64) {
		for _, x := range backed.list[s] {
			if k := x.buffer.backing(); k != nil && x.from <= first+at && first+at < x.to {
				f, offset, ok = k.file, k.offset+first+at-x.from, true
			}
		}
	})
	return f, offset, ok
}
