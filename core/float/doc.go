// Package float defines floating-point types of 16 and 8 bits, which Go does not have. A value
// holds the bits of a number. Functions such as [NewFloat16] round a float32 to the type. The
// method Float32 converts back exactly. Elements of tensors can have these types: see
// core.Element.
//
// [ToFloat16], [FromFloat16], [ToBFloat16] and [FromBFloat16] convert slices. They use the vector
// instructions of the processor if it has them, and the results are the same to the bit.
//
// Numbers are rounded to the nearest value, and ties to even. Rounding a NaN to 16 bits keeps
// the upper bits of its payload and makes it quiet. Converting a NaN to float32 does not change whether it is
// quiet.
package float
