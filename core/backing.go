package core

// Backing names bytes by the file behind the descriptors that stand for them: two
// mappings or imports of one file are the same memory, whatever their addresses and
// handles are.
type Backing struct {
	file   file
	offset int64 // of the memory's first byte, in what the descriptors stand for
}

// file tells what descriptors stand for apart.
type file struct {
	kind          HandleType // offsets count from the start of what it names
	device, inode uint64
}

// Backing identifies the buffer that x stands for, nil where x has no descriptor or
// the system does not tell what is behind it. It does for regular files, which memfds
// are, and the memory of lavapipe and of other drivers on the CPU is; and for dma-bufs,
// each of which has an inode of its own since Linux 5.3. Opaque descriptors
// of other drivers it does not tell apart: they are those of a device's file, or all have
// one inode. The descriptor stays its owner's.
//
// Devices note it in [Memory.Backing] when they import memory, and by
// [Buffer.Exported] when they export some.
func (x ExternalMemory) Backing() *Backing {
	if !x.Type.IsFD() {
		return nil
	}
	device, inode, ok := identify(x.FD, x.Type == HandleDMABuf)
	if !ok {
		return nil
	}
	return &Backing{file{x.Type, device, inode}, x.Offset}
}
