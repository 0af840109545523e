package tensorfile

import (
	"math"
	"math/bits"
	"runtime/debug"
)

// readHeader reads the header of a .safetensors file, which takes size bytes of it, past the page cache. It returns nil if the
// header is short, or in the page cache, or cannot be read so: then it is read through the mapping. The caller frees the
// result.
func (l *loader) readHeader(s *shard, size int64) *mapping {
	if size < largeHeader || l.options.Read == ReadMap {
		return nil
	}
	if part, known := s.cached(0, size); !known || part >= mostlyCached || s.openDirect() != nil {
		return nil
	}
	defer func() {
		_ = s.closeDirect() // it was only read
		s.direct = nil      // how the elements are read is chosen later
	}()
	header := newMapping(allocateHuge((size + block - 1) &^ (block - 1)))
	if s.directRead(header.data, 0, size) != nil {
		header.Free()
		return nil // who reads it through the mapping finds out why
	}
	return header
}

// reserveHeap has Go's heap grow at once by about what a load with a header of so many bytes allocates. The garbage collector
// would otherwise run each time that the heap has doubled, and look at all tensors that were made so far. Nothing uses the
// reserve: a strings.Builder does not clear its memory, so that fresh pages are never touched, and take no memory of the machine.
// The first large header of a load counts. A process with a limit of memory gets no reserve, since the collector would run more often.
func (l *loader) reserveHeap(header int64) {
	const most = 64 << 20 // a heap that is larger doubles less often
	if header >= largeHeader && l.reserve.Cap() == 0 && bits.UintSize == 64 && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		l.reserve.Grow(int(min(8*header, most)))
	}
}
