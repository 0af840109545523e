package hostcopy

import (
	"runtime"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/parallel"
)

// Job is a copy of tensors whose memory the host can address, ready to run. It holds addresses and no longer
// needs the tensors; whoever runs it keeps the memory alive. A Job may run more than once.
type Job struct {
	dst, src uintptr
	geometry copyplan.Copy
	bits     bool
}

// Between returns the job of copying src to dst, which have passed CheckCopy of package backendkit. The bases are the
// addresses at which the host sees the byte at offset 0 from the handle of each memory: the handle itself for
// host memory, and the address from [core.HostViewer] or a mapping for device memory.
func Between(dst, src *core.Tensor, dstBase, srcBase uintptr) Job {
	c, bits := copyplan.OfBits(dst, src)
	return newJob(dstBase, srcBase, c, bits)
}

// Pack returns the job of gathering the elements of src, whose memory starts at base, in row-major order at
// packed, which has room for src.NumBytes() bytes.
func Pack(packed uintptr, src *core.Tensor, base uintptr) Job {
	c, bits := copyplan.Pack(src)
	return newJob(packed, base, c, bits)
}

// Unpack returns the reverse of [Pack]: the job of distributing the row-major elements at packed to dst,
// whose memory starts at base.
func Unpack(dst *core.Tensor, base, packed uintptr) Job {
	c, bits := copyplan.Unpack(dst)
	return newJob(base, packed, c, bits)
}

// Bytes returns the job of copying n bytes from src to dst.
func Bytes(dst, src uintptr, n int64) Job {
	return Job{dst: dst, src: src, geometry: copyplan.Copy{Elem: n}}
}

// Small copies n bytes from the address src to dst, in as many goroutines as Go runs at a time if there are enough bytes for
// several. It fails like [Copy].
func Small(dst, src uintptr, n int64) error {
	workers := 1
	if n >= parallel.Least {
		workers = runtime.GOMAXPROCS(0) // for which the runtime takes a lock
	}
	return Contiguous(pointer(dst), pointer(src), n, workers)
}

// newJob copies the axes that are left, mostly none to three. c has room for more, which stays on the stack only if
// no part of c itself is returned.
func newJob(dst, src uintptr, c copyplan.Copy, bits bool) Job {
	axes := append([]axis(nil), c.Axes...)
	return Job{dst, src, copyplan.Copy{Elem: c.Elem, Dst: c.Dst, Src: c.Src, Axes: axes}, bits}
}

// Run copies with at most workers goroutines, including the caller's. It fails like [Copy].
func (j Job) Run(workers int) error { return Run(j.dst, j.src, j.geometry, j.bits, workers) }

// Run carries out c with at most workers goroutines. c counts bits if bits is set, else bytes. Its offsets
// count from dst and src. These are numbers and not pointers, since no element need lie at them: around
// mapped host memory there may be other objects of Go, and a pointer to one that was freed ends the program
// at the next garbage collection. Run makes pointers only to elements. It fails like [Copy].
func Run(dst, src uintptr, c copyplan.Copy, bits bool, workers int) error {
	if c.Elem == 0 {
		return nil
	}
	if bits {
		to, from := pointer(dst+uintptr(c.Dst>>3)), pointer(src+uintptr(c.Src>>3))
		c.Dst, c.Src = c.Dst&7, c.Src&7
		return CopyBits(to, from, c, workers)
	}
	to, from := pointer(dst+uintptr(c.Dst)), pointer(src+uintptr(c.Src))
	c.Dst, c.Src = 0, 0
	return Copy(to, from, c, workers)
}

// pointer turns the address of an element into a pointer. The element lies outside of Go's heap, or its owner
// keeps it alive and in place.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
