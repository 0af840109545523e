// Package strided is the geometry of a copy between two strided layouts: which
// bytes go where, in the fewest and largest pieces. It touches no memory; host and
// device copies are carried out from what it says.
//
// [Of] turns two tensors into a [Copy]. A backend then takes the first way that
// its API has and that is worth it:
//
//   - [Copy.Contiguous]: one plain copy;
//   - [Copy.Boxes]: rectangular copies, as clEnqueueCopyBufferRect and cuMemcpy3D
//     make them;
//   - [Copy.Pieces]: a region for each piece, as vkCmdCopyBuffer takes them;
//   - [Copy.Narrow] and [Copy.Split]: launches of a kernel that moves one word per
//     step, for any strides.
package strided
