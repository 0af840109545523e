// Package copyplan is the geometry of a copy between two strided layouts: which bytes are copied where, in as
// few and as large pieces as possible. It touches no memory. Copies by the host and by devices follow it.
//
// [Of] makes a [Copy] from two tensors. A backend then uses the first way that its API has and that is fast:
//
//   - [Copy.Contiguous]: one plain copy;
//   - [Copy.Boxes]: rectangular copies, as clEnqueueCopyBufferRect and cuMemcpy3D make them;
//   - [Copy.Pieces]: a region for each piece, as vkCmdCopyBuffer takes them;
//   - [Copy.Narrow] and [Copy.Split]: launches of a kernel that moves one word per step, for any strides.
package copyplan
