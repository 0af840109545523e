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
	dst, src unsafe.Pointer
	geometry strided.Copy
	bits     bool
}

// Between is the job of copying src into dst, which passed [core.CheckCopy]. The
// bases are where the host sees the start of each memory, the byte with offset 0
// from its handle: the handle itself for host memory, what [core.HostViewer] or a
// mapping gives for memory of a device.
func Between(dst, src *core.Tensor, dstBase, srcBase unsafe.Pointer) Job {
	c, bits := strided.OfBits(dst, src)
	return newJob(dstBase, srcBase, c, bits)
}

// Pack is the job of gathering the elements of src, whose memory starts at base,
// in row-major order at packed, which has room for src.NumBytes() bytes.
func Pack(packed unsafe.Pointer, src *core.Tensor, base unsafe.Pointer) Job {
	c, bits := strided.Pack(src)
	return newJob(packed, base, c, bits)
}

// Unpack is the reverse of [Pack]: the job of spreading the row-major elements at
// packed over dst, whose memory starts at base.
func Unpack(dst *core.Tensor, base, packed unsafe.Pointer) Job {
	c, bits := strided.Unpack(dst)
	return newJob(base, packed, c, bits)
}

// newJob moves the bases to the first piece: around mapped host memory, the first
// byte of a handle may be another object of Go's. It keeps a copy of the axes that are
// left, mostly none to three: c has room for more, on the stack.
func newJob(dst, src unsafe.Pointer, c strided.Copy, bits bool) Job {
	unit := int64(1)
	if bits {
		unit = 8
	}
	axes := append([]axis(nil), c.Axes...)
	first := strided.Copy{Elem: c.Elem, Dst: c.Dst % unit, Src: c.Src % unit, Axes: axes}
	return Job{at(dst, c.Dst/unit), at(src, c.Src/unit), first, bits}
}

// at is the address n bytes behind p, which may lie in another object.
func at(p unsafe.Pointer, n int64) unsafe.Pointer {
	address := uintptr(p) + uintptr(n)
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// Run copies, with at most workers goroutines, the caller's among them. It fails
// like [Copy].
func (j Job) Run(workers int) error {
	if j.bits {
		return CopyBits(j.dst, j.src, j.geometry)
	}
	return Copy(j.dst, j.src, j.geometry, workers)
}
