// Package float has floating-point types of 16 and 8 bits, which Go lacks. A value holds the bits
// of a number. Functions such as [NewFloat16] round a float32 to the type, and the method Float32
// converts back, which is exact. Elements of tensors can have these types: see core.Element.
//
// [ToFloat16], [FromFloat16], [ToBFloat16] and [FromBFloat16] convert slices. Where the processor
// has vector instructions for this, they use them, with the same results to the bit. Numbers are
// rounded to the nearest, ties to even. Of a NaN's payload, the upper bits are kept. A NaN becomes
// quiet when it is rounded, and stays what it is when it is converted to float32.
package float
