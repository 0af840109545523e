// Package image shares memory between tensors and the images of Go's package image, both ways.
//
// # From images
//
// From returns a tensor of shape (height, width, channels) on the pixels of an image of package image, without a
// copy; a SubImage becomes a tensor with strides. Planes does the same for the three or four planes of YCbCr and
// NYCbCrA images, whose sizes may differ. Copy returns a tensor with a copy of any image, as RGBA.
//
// # To images
//
// View returns an image of any uint8 tensor of shape (height, width, channels) with 1, 3 or 4 channels, of any
// strides: rows may run backward, and a tensor of shape (channels, height, width) needs only Permute(1, 2, 0). It
// implements draw.Image. ToRGBA, ToNRGBA, ToGray and ToAlpha return Go's own types, which have faster code in many
// packages; they need pixels that are adjacent in each row. None of them copies.
//
// An image keeps the memory of its tensor until release is called, even if the garbage collector finds it unused; see
// ToRGBA. Images are for reading and writing, so a read-only tensor is refused with core.ErrReadOnly.
//
// # Batches
//
// Batch makes of images of one size what a network for images expects: one tensor of float32, or another type, on any
// device, with the channels before the rows, and each channel scaled. It reads the pixels of RGBA, NRGBA, Gray and Alpha images
// once, in place. All others it first draws as RGBA, several at a time, each in memory that is used again.
//
// # 16 bits
//
// Images with 16 bits for each channel store the high byte first, whatever the processor does. From therefore refuses
// RGBA64, NRGBA64, Gray16 and Alpha16 with core.ErrDType, and Copy16 returns a copy as uint16. No tensor of uint16
// can become such an image without a copy, and none does here.
package image
