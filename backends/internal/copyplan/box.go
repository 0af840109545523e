package copyplan

// Box is a block of up to three dimensions: Slices of Rows of Row bytes. On each side, rows are RowPitch
// apart and slices SlicePitch. A pitch is never less than the size of what it separates, and a slice pitch is
// a multiple of its row pitch. clEnqueueCopyBufferRect and cuMemcpy3D (height = slice pitch / row pitch)
// therefore accept them.
type Box struct {
	Row, Rows, Slices          int64
	DstRowPitch, DstSlicePitch int64
	SrcRowPitch, SrcSlicePitch int64
}

// Boxes divides the copy into equal boxes. box is the largest one that the innermost axes form, and the
// pieces of at are the places of the boxes. In the worst case a box is one piece of c.
func (c Copy) Boxes() (box Box, at Copy) {
	box = Box{Row: c.Elem, Rows: 1, Slices: 1, DstRowPitch: c.Elem, SrcRowPitch: c.Elem}
	k := len(c.Axes)
	if k > 0 {
		if a := c.Axes[k-1]; a.Dst >= c.Elem && a.Src >= c.Elem {
			box.Rows, box.DstRowPitch, box.SrcRowPitch = a.N, a.Dst, a.Src
			k--
		}
	}
	box.DstSlicePitch, box.SrcSlicePitch = box.Rows*box.DstRowPitch, box.Rows*box.SrcRowPitch
	if k > 0 && box.Rows > 1 {
		if a := c.Axes[k-1]; fits(a.Dst, box.DstSlicePitch, box.DstRowPitch) && fits(a.Src, box.SrcSlicePitch, box.SrcRowPitch) {
			box.Slices, box.DstSlicePitch, box.SrcSlicePitch = a.N, a.Dst, a.Src
			k--
		}
	}
	return box, Copy{box.Row * box.Rows * box.Slices, c.Dst, c.Src, c.Axes[:k]}
}

// fits reports whether slices may be step apart.
func fits(step, slice, row int64) bool { return step >= slice && step%row == 0 }
