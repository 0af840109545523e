package engine

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

type (
	operand    = cmdqueue.Operand[*object]
	deviceCopy = cmdqueue.Copy[*object]
)

// OperandOf finds the memory of a tensor. It fails for memory of another device.
func (d *device) OperandOf(t *core.Tensor) (operand, error) {
	m, host, err := d.Locate(t)
	switch {
	case err != nil:
		return operand{}, err
	case host:
		return operand{Tensor: t, At: m.Handle}, nil
	case m.Handle == 0:
		return operand{Tensor: t, Object: &object{}}, nil
	}
	o, err := d.lookUp("Copy", driver.ID(m.Handle))
	if err == nil && m.Size == core.UnknownSize {
		err = d.CheckExtent(t, o.size, "MTLBuffer")
	}
	if err != nil {
		return operand{}, err
	}
	return operand{Tensor: t, Object: o, At: o.host}, nil
}

const (
	// blitUnit divides the offsets and the size of every copy of a blit encoder on macOS (Apple,
	// "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:").
	blitUnit = 4
	// maxBlits is the largest number of pieces that a blit encoder copies. For pieces of at least longBlit bytes, which
	// a kernel moves no faster, it is maxLongBlits.
	maxBlits     = 16
	longBlit     = 64 << 10
	maxLongBlits = 1024
)

// blits reports whether the blit encoder can copy all pieces, and they are few.
func blits(c deviceCopy) bool {
	g := c.Geometry
	if n := g.Count(); n > maxBlits && (n > maxLongBlits || g.Elem < longBlit) {
		return false
	}
	steps := g.Elem | g.Dst | g.Src
	for _, a := range g.Axes {
		steps |= a.Dst | a.Src
	}
	return steps%blitUnit == 0
}

// Joins reports that one command buffer can have any copies.
func (d *device) Joins(deviceCopy) bool { return true }

// AddCopy adds one command buffer.
func (d *device) AddCopy(q *queue, c deviceCopy) error { return d.AddCopies(q, []deviceCopy{c}) }

// AddCopies adds one command buffer.
func (d *device) AddCopies(q *queue, c []deviceCopy) error { return q.Add(item{Commands: copies(c)}) }

// copies are commands that copy: by the blit encoder, or by kernels.
type copies []deviceCopy

func (x copies) Submit(q *queue, i item) error { return q.submit(i, x) }

func (x copies) encode(e *encoding) error {
	for _, c := range x {
		encode := e.gather
		if blits(c) {
			encode = e.copyPieces
		}
		if err := encode(c); err != nil {
			return err
		}
	}
	return nil
}

// copyPieces encodes a copy by the blit encoder.
func (e *encoding) copyPieces(c deviceCopy) error {
	blit, err := e.blits()
	if err != nil {
		return err
	}
	for to, from := range c.Geometry.Pieces() {
		e.device.driver.CopyBuffer(blit, c.Dst.buffer, uint64(to), c.Src.buffer, uint64(from), uint64(c.Geometry.Elem))
	}
	return nil
}

// gather encodes a copy by kernels, in as many dispatches as they need.
func (e *encoding) gather(c deviceCopy) error {
	for part := range gpucopy.Plan(c.Geometry, gpucopy.MetalLimits()) {
		x := kernel{part.Shader.String(), part.Shader.MSL, gpucopy.GroupSize}
		constants := unsafe.Slice((*byte)(unsafe.Pointer(&part.Constants)), unsafe.Sizeof(part.Constants))
		if err := e.dispatch(x, place{c.Dst, part.Dst.Offset}, place{c.Src, part.Src.Offset}, constants, part.Groups); err != nil {
			return err
		}
	}
	return nil
}
