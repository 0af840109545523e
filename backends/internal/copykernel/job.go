package copykernel

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
)

// Job is a copy of tensors whose memory the host can address, ready to run. It
// knows addresses, and does not need the tensors any more; whoever runs it sees to
// it that the memory stays. A Job may run more than once.
type Job struct {
	dst, src uintptr
	geometry strided.Copy
	bits     bool
}

// Between is the job of copying src into dst, which passed [core.CheckCopy]. The
// bases are where the host sees the start of each memory, the byte with offset 0
// from its handle: the handle itself for host memory, what [core.HostViewer] or a
// mapping gives for memory of a device.
func Between(dst, src *core.Tensor, dstBase, srcBase uintptr) Job {
	c, bits := strided.OfBits(dst, src)
	return newJob(dstBase, srcBase, c, bits)
}

// Pack is the job of gathering the elements of src, whose memory starts at base,
// in row-major order at packed, which has room for src.NumBytes() bytes.
func Pack(packed uintptr, src *core.Tensor, base uintptr) Job {
	c, bits := strided.Pack(src)
	return newJob(packed, base, c, bits)
}

// Unpack is the reverse of [Pack]: the job of spreading the row-major elements at
// packed over dst, whose memory starts at base.
func Unpack(dst *core.Tensor, base, packed uintptr) Job {
	c, bits := strided.Unpack(dst)
	return newJob(base, packed, c, bits)
}

// Bytes is the job of copying n bytes from src to dst.
func Bytes(dst, src uintptr, n int64) Job {
	return Job{dst: dst, src: src, geometry: strided.Copy{Elem: n}}
}

// newJob keeps a copy of the axes that are left, mostly none to three: c has room for
// more, on the stack.
func newJob(dst, src uintptr, c strided.Copy, bits bool) Job {
	c.Axes = append([]axis(nil), c.Axes...)
	return Job{dst, src, c, bits}
}

// Run copies, with at most workers goroutines, the caller's among them. It fails
// like [Copy].
func (j Job) Run(workers int) error { return Run(j.dst, j.src, j.geometry, j.bits, workers) }

// Run carries out c, which counts in bits if bits is set and else in bytes, with at
// most workers goroutines. dst and src are the addresses that its offsets count from,
// and numbers: no element need lie there. Around mapped memory of the host other
// objects of Go lie there, which may be freed, and a pointer to one that is ends the
// program at the next garbage collection. Pointers begin with the first piece. It
// fails like [Copy].
func Run(dst, src uintptr, c strided.Copy, bits bool, workers int) error {
	if c.Elem == 0 {
		return nil
	}
	if bits {
		to, from := pointer(dst+uintptr(c.Dst>>3)), pointer(src+uintptr(c.Src>>3))
		c.Dst, c.Src = c.Dst&7, c.Src&7
		return CopyBits(to, from, c)
	}
	to, from := pointer(dst+uintptr(c.Dst)), pointer(src+uintptr(c.Src))
	c.Dst, c.Src = 0, 0
	return Copy(to, from, c, workers)
}

// pointer turns the address of an element, which is outside of Go's heap or kept
// alive and in place by its owner, into a pointer.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
