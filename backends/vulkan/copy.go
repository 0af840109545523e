//go:build vulkan && linux && cgo

package vulkan

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

type (
	operand    = cmdqueue.Operand[*object]
	deviceCopy = cmdqueue.Copy[*object]
)

// OperandOf finds the memory of a tensor. It fails for memory of another device.
func (d *device) OperandOf(t *core.Tensor) (operand, error) {
	m, host, err := d.Locate(t)
	if err != nil {
		return operand{}, err
	}
	if host {
		return operand{Tensor: t, At: m.Handle}, nil
	}
	if m.Handle == 0 {
		return operand{Tensor: t, Object: &object{}}, nil
	}
	d.Mu.Lock()
	o := d.objects[m.Handle]
	d.Mu.Unlock()
	if o == nil {
		b, err := d.describedAt("Copy", m.Handle)
		if err != nil {
			return operand{}, err
		}
		o = d.objectFrom(b)
	}
	if m.Size == core.UnknownSize {
		if err := d.CheckExtent(t, o.size, "VkBuffer"); err != nil {
			return operand{}, err
		}
	}
	return operand{Tensor: t, Object: o, At: o.host}, nil
}

const (
	// maxRegions is the largest number of pieces that vkCmdCopyBuffer copies. For pieces of
	// at least longRegion bytes, which a shader moves no faster, it is maxLongRegions.
	maxRegions     = 1024
	longRegion     = 2048
	maxLongRegions = 64 << 10
)

// fewRegions reports whether the device copies by vkCmdCopyBuffer, instead of a shader.
func fewRegions(c deviceCopy) bool {
	n := c.Geometry.Count()
	return n <= maxRegions || n <= maxLongRegions && c.Geometry.Elem >= longRegion
}

// Joins reports whether a copy is contiguous, and no other queue family owns a buffer of it.
func (d *device) Joins(c deviceCopy) bool {
	for _, o := range [...]*object{c.Dst, c.Src} {
		if o != nil && o.sharedWith != driver.OwnNone {
			return false
		}
	}
	_, contiguous := c.Geometry.Contiguous()
	return contiguous
}

// AddCopies adds one command buffer for copies that are contiguous.
func (d *device) AddCopies(q *queue, copies []deviceCopy) error {
	return q.Add(item{Commands: together(copies)})
}

// AddCopy adds one command buffer for all pieces of a copy. A shader makes a copy of too many pieces, in as many dispatches as
// the device's limits require.
func (d *device) AddCopy(q *queue, c deviceCopy) error {
	if fewRegions(c) {
		return q.Add(item{Commands: newRegions(c)})
	}
	return d.addDispatches(q, c)
}

// addDispatches adds a command buffer for each dispatch.
func (d *device) addDispatches(q *queue, c deviceCopy) error {
	for part := range gpucopy.Plan(c.Geometry, d.gatherLimits()) {
		p, err := d.pipeline(part.Shader)
		if err != nil {
			return err
		}
		x := &dispatch{c.Dst.operand(), c.Src.operand(), p, part.Constants, part.Groups}
		x.dst.Offset, x.dst.Range = part.Dst.Offset, part.Dst.Size
		x.src.Offset, x.src.Range = part.Src.Offset, part.Src.Size
		if err := q.Add(item{Commands: x}); err != nil {
			return err
		}
	}
	return nil
}

// together are contiguous copies.
type together []deviceCopy

func (x together) Submit(q *queue, i item) error { return q.submit(i, x) }

func (x together) record(q *queue, _ item, c *command) error {
	copies := make([]driver.Copy, len(x))
	for i, one := range x {
		g := one.Geometry
		copies[i] = driver.Copy{Dst: one.Dst.buffer, Src: one.Src.buffer, Region: driver.Region{Src: g.Src, Dst: g.Dst, Size: g.Size()}}
	}
	return q.device.driver.RecordCopies(c.handle, copies)
}

// regions are the pieces of one copy.
type regions struct {
	dst, src driver.Operand
	list     []driver.Region
}

func newRegions(c deviceCopy) *regions {
	x := &regions{c.Dst.operand(), c.Src.operand(), make([]driver.Region, 0, c.Geometry.Count())}
	for to, from := range c.Geometry.Pieces() {
		x.list = append(x.list, driver.Region{Src: from, Dst: to, Size: c.Geometry.Elem})
	}
	return x
}

func (x *regions) Submit(q *queue, i item) error { return q.submit(i, x) }

func (x *regions) record(q *queue, _ item, c *command) error {
	return q.device.driver.Record(c.handle, x.dst, x.src, x.list, nil)
}

// dispatch is a copy by a shader.
type dispatch struct {
	dst, src  driver.Operand
	pipeline  *driver.Pipeline
	constants gpucopy.Constants
	groups    [3]uint32
}

func (x *dispatch) Submit(q *queue, i item) error { return q.submit(i, x) }

func (x *dispatch) record(q *queue, _ item, c *command) error {
	set, err := c.setFor(q.device, x.pipeline)
	if err != nil {
		return err
	}
	constants := x.constants // apart from Go pointers, which C must not see
	push := unsafe.Slice((*byte)(unsafe.Pointer(&constants)), unsafe.Sizeof(constants))
	return q.device.driver.Record(c.handle, x.dst, x.src, nil,
		&driver.Dispatch{Pipeline: x.pipeline, Set: set, Groups: x.groups, Push: push})
}

func (d *device) gatherLimits() gpucopy.Limits {
	p := d.physical
	return gpucopy.Limits{
		StorageRange:    p.MaxStorageRange,
		OffsetAlignment: p.StorageAlignment,
		Groups:          p.MaxGroups,
		Storage8:        p.Storage8,
		Storage16:       p.Storage16,
		Tiles:           p.Kind != driver.CPU,
	}
}

// pipeline returns the pipeline of a shader, and makes it on first use.
func (d *device) pipeline(s gpucopy.Shader) (*driver.Pipeline, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if p, ok := d.pipelines[s]; ok {
		return p, nil
	}
	if !d.gatherLimits().Allows(s) {
		return nil, errorf(core.ErrNotSupported, "vkCreateComputePipelines", "%v needs 8 or 16 bit storage, which the driver lacks", s)
	}
	p, err := d.driver.NewPipeline(s.SPIRV(), int(unsafe.Sizeof(gpucopy.Constants{})))
	if err != nil {
		return nil, d.NoteLoss(err)
	}
	d.pipelines[s] = p
	return p, nil
}
