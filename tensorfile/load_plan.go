package tensorfile

import (
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

const (
	// smallTensor is the size in bytes from which on a tensor has an allocation of its own.
	smallTensor = 1 << 20
	// largestGroup bounds the bytes of an allocation that small tensors share, and so the memory that one of them
	// keeps.
	largestGroup = 32 << 20
	// packing is the alignment in bytes of small tensors that are packed into an allocation.
	packing = 64
	// nearby is how many unwanted bytes are read rather than to read what lies around them by two calls: as many as
	// a disk reads in the time that one more call takes.
	nearby = 64 << 10
	// block is the alignment of positions, lengths and memory with which every system reads past the page cache.
	block = 4096
	// largestPiece is the number of bytes from which on a larger piece is not read faster.
	largestPiece = 8 << 20
	// worthDirect is the number of bytes from which on it is worth to read a file past the page cache.
	worthDirect = 1 << 20
	// mostlyCached is the part of a file in the page cache from which on ReadAuto reads through it.
	mostlyCached = 0.8
)

// loader is one call of Load or Read.
type loader struct {
	start   time.Time
	device  core.Device
	options LoadOptions
	onHost  bool // the device is the host
	viewer  core.HostViewer
	shards  []*shard
	wants   []*want // in the order of the files
	groups  []*group
	pieces  []piece // in the order of the files
	whole   []*want // that do not go through pieces
	piece   int64   // the largest number of bytes of the file, and of the group, of a piece
	report  LoadReport
	reserve strings.Builder        // see reserveHeap
	allowed map[[2]core.DType]bool // conversions that there are
	noFiles bool                   // the device was asked, and the system is not set up for it to read files
}

// group is memory that tensors share: an allocation of the device, or a mapped file.
type group struct {
	size int64
	mem  *core.Tensor // the bytes, on the device; the loader closes it
	view *core.Tensor // the same bytes on the host; nil if the host has no access or mem is on the host
	host []byte       // the same bytes; nil if the host has no access
	at   int64        // where the first byte lies in mem
	file *shard       // the mapped file that is the memory; nil for an allocation
	// straight is set if the bytes are those of file from begin on.
	straight *shard
	begin    int64

	wants []*want
	mu    sync.Mutex
	turn  sync.Cond // a checksum has gone on
}

// piece is a range of a file that is read at once, and the range of a group that it is for.
type piece struct {
	s        *shard
	off, n   int64 // of the file
	g        *group
	to, size int64 // of the group
	jobs     []job // what becomes of the bytes; nil if they are the bytes of the group
	first    int   // without jobs: the first tensor of the group that has bytes in the piece
}

// job is rows of a tensor in a piece.
type job struct {
	w      *want
	index  int   // of w in the wants of the group
	from   int64 // of the first row, in bytes from the start of the piece
	rows   int64
	elems  int64 // of each row
	run    int64 // bytes of each row
	stride int64 // bytes from one row to the next, if there are several
	to     int64 // in the group
	size   int64 // bytes in the group
	start  int64 // bytes of the tensor before
}

// plan chooses the tensors and how to read them.
func (l *loader) plan(ctx context.Context) error {
	if err := l.choose(); err != nil {
		return err
	}
	for at := 0; at < len(l.wants); {
		s, end := l.wants[at].s, at
		for end < len(l.wants) && l.wants[end].s == s {
			end++
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.planFile(ctx, s, l.wants[at:end]); err != nil {
			return err
		}
		at = end
	}
	for _, s := range l.shards {
		if s.report.Tensors == 0 {
			s.report.Read, s.report.Reason = ReadMap, "only its headers were read"
		}
	}
	return nil
}

// setSizes divides the budget.
func (l *loader) setSizes() {
	o := &l.options
	threads := o.Threads
	if threads == 0 {
		threads = max(4, min(runtime.GOMAXPROCS(0), 16))
	}
	// Each thread has two buffers for what it reads, and two for what becomes of it. Each buffer is larger than a piece
	// by two blocks around what is read, and by one to align it.
	size := func() int64 { return o.Budget/int64(threads)/4 - 3*block }
	for threads > 1 && size() < 256<<10 {
		threads--
	}
	l.report.Threads = threads
	l.piece = min(size(), largestPiece) &^ (block - 1)
}

// planFile makes groups and pieces for the tensors of a file.
func (l *loader) planFile(ctx context.Context, s *shard, wants []*want) error {
	if s.report.Read == "" {
		var bytes int64
		for _, w := range wants {
			bytes += w.bytes()
			s.asItIs = s.asItIs || w.plain()
		}
		first, end := reach(wants)
		if err := l.chooseRead(ctx, s, first, end, bytes); err != nil {
			return err
		}
	}
	ahead := s.ahead
	var inPlace *group
	b := &builder{l: l, s: s}
	for at := 0; at < len(wants); {
		w := wants[at]
		switch {
		case s.file.format == NPZ || w.e.Swapped || l.options.RowMajor && !rowMajor(w.e):
			l.whole = append(l.whole, w)
			at++
		case w.size() == 0 || w.bytes() == 0:
			l.whole = append(l.whole, w)
			at++
		case len(ahead) > 0 && ahead[0].begin <= w.first():
			g := ahead[0]
			for ; at < len(wants) && wants[at].end() <= g.begin+g.size && wants[at].size() > 0; at++ {
				wants[at].g, wants[at].to = g, wants[at].first()-g.begin
			}
			if at == len(wants) || wants[at].end() > g.begin+g.size {
				ahead = ahead[1:]
			}
		case l.inPlace(w):
			if inPlace == nil {
				inPlace = &group{file: s, size: int64(len(s.file.share.m.data))}
				l.groups = append(l.groups, inPlace)
			}
			end := at + 1
			for end < len(wants) && l.inPlace(wants[end]) && wants[end].first() == wants[end-1].end() && wants[end].bytes() > 0 {
				end++
			}
			l.populate(inPlace, wants[at:end])
			at = end
		default:
			end := l.neighbours(wants, at)
			if n := wants[end-1].end() - w.first(); w.plain() && (end > at+1 && n >= nearby || n >= smallTensor) {
				b.flush()
				l.straight(wants[at:end])
			} else {
				for _, w := range wants[at:end] {
					b.add(w)
				}
			}
			at = end
		}
	}
	b.flush()
	return nil
}

// reach returns the smallest range of the file that has the bytes of all wants. The directory of an archive may list its
// members in any order.
func reach(wants []*want) (first, end int64) {
	first = math.MaxInt64
	for _, w := range wants {
		if w.bytes() == 0 {
			continue
		}
		from, to := w.first(), w.end()
		if w.e.Compressed { // then first and end count bytes that the file does not have
			from, to = w.e.Offset, w.e.Offset+int64(w.e.member.file.CompressedSize64)
		}
		first, end = min(first, from), max(end, to)
	}
	return min(first, end), end
}

// rowMajor reports whether the elements lie in row-major order.
func rowMajor(e *entry) bool {
	l, err := core.NewLayout(e.Shape()...)
	if err != nil {
		return true
	}
	for i, n := range e.Strides() {
		if l.Stride(i) != n {
			return false
		}
	}
	return true
}

// inPlace reports whether a tensor is to be the memory of the mapped file.
func (l *loader) inPlace(w *want) bool {
	return l.onHost && !l.options.Writable && w.s.report.Read == ReadMap && w.plain() && w.e.InPlace &&
		aligned(w.dtype(), w.s.file.share.m.data[w.first():])
}

// neighbours returns the end of the list of small tensors from at on that follow each other in the file, so that the
// bytes of the file can be their memory as they are.
func (l *loader) neighbours(wants []*want, at int) int {
	first, end := wants[at], at+1
	for ; end < len(wants); end++ {
		w, last := wants[end], wants[end-1]
		size, whole := w.dtype().ItemSize()
		if !first.plain() || !w.plain() || last.size() >= smallTensor || w.size() >= smallTensor || w.first() != last.end() ||
			w.end()-first.first() > largestGroup || w.size() == 0 || whole && (w.first()-first.first())%size != 0 {
			break
		}
	}
	return end
}

// populate makes the pieces of tensors that are the memory of the file.
func (l *loader) populate(g *group, wants []*want) {
	first := len(g.wants)
	for _, w := range wants {
		w.g, w.to = g, w.first()
	}
	if first == 0 {
		g.wants = slices.Clip(wants)
	} else {
		g.wants = append(g.wants, wants...)
	}
	off, end := wants[0].first(), wants[len(wants)-1].end()
	for off < end {
		n := min(end, (off/largestPiece+1)*largestPiece) - off
		for g.wants[first].end() <= off {
			first++
		}
		l.pieces = append(l.pieces, piece{s: g.file, off: off, n: n, g: g, to: off, size: n, first: first})
		off += n
	}
}

// straight makes a group and pieces for tensors whose bytes follow each other in the file.
func (l *loader) straight(wants []*want) {
	off, end := wants[0].first(), wants[len(wants)-1].end()
	g := &group{size: end - off, straight: wants[0].s, begin: off, wants: wants}
	l.groups = append(l.groups, g)
	for _, w := range wants {
		w.g, w.to = g, w.first()-off
	}
	first := 0
	for p := range l.straightPieces(g) {
		for wants[first].end() <= p.off {
			first++
		}
		p.first = first
		l.pieces = append(l.pieces, p)
	}
}

// straightPieces returns the pieces of a group whose bytes are those of a file.
func (l *loader) straightPieces(g *group) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for off, end := g.begin, g.begin+g.size; off < end; {
			n := min(end, (off/l.piece+1)*l.piece) - off
			if !yield(piece{s: g.straight, off: off, n: n, g: g, to: off - g.begin, size: n}) {
				return
			}
			off += n
		}
	}
}

// chooseRead chooses how the tensors of a file, which have so many bytes between first and end, are read. It fails if the
// way that was asked for is not possible.
func (l *loader) chooseRead(ctx context.Context, s *shard, first, end, bytes int64) error {
	r := &s.report
	known := false
	if bytes > 0 {
		r.Cached, known = s.cached(first, end-first)
	}
	direct := func(reason string) {
		r.Read, r.Reason = ReadDirect, reason
		if s.direct != nil {
			return
		}
		if err := s.openDirect(); err != nil {
			r.Read, r.Reason = ReadBuffered, "it cannot be read past the page cache: "+err.Error()
			l.report.Refused = append(l.report.Refused, Refusal{"reading " + s.path + " directly", err.Error()})
		}
	}
	notCached := func(reason string) {
		if l.offer(ctx, s) {
			r.Read, r.Reason = ReadCUFile, reason
			return
		}
		direct(reason)
	}
	switch {
	case s.file != nil && s.file.format == NPZ: // nil while the header of a .safetensors file is being read
		r.Read, r.Reason = ReadMap, "the members of an archive are read through the mapping, which checks them"
	case s.file != nil && s.file.entries[0].Swapped: // an array of NumPy, which is the only one
		r.Read, r.Reason = ReadMap, "its elements have the other byte order: they are copied from the mapping and swapped"
	case l.options.Read == ReadMap:
		r.Read, r.Reason = ReadMap, "as asked for"
	case l.options.Read == ReadDirect:
		direct("as asked for")
	case l.options.Read == ReadCUFile:
		done, reason, err := l.force(ctx, s)
		if err != nil {
			return err
		}
		if r.Read, r.Reason = ReadCUFile, reason; !done {
			direct(reason)
		}
	case bytes < worthDirect:
		r.Read, r.Reason = ReadMap, fmt.Sprintf("%d bytes are too few to read them past the page cache", bytes)
	case known && r.Cached >= mostlyCached:
		r.Read, r.Reason = ReadMap, fmt.Sprintf("%.0f %% of it is in the page cache", 100*r.Cached)
	case known:
		notCached(fmt.Sprintf("%.0f %% of it is in the page cache", 100*r.Cached))
	default:
		notCached("it is not known whether it is in the page cache")
	}
	return nil
}

// addressOf returns the address of the first byte.
func addressOf(b []byte) int64 { return int64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
