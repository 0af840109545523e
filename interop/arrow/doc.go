// Package arrow shares memory between tensors and the arrays and tensors of github.com/apache/arrow-go, both ways.
//
//   - ToTensor and FromTensor: the package arrow/tensor, with strides.
//   - ToArray and FromArray: arrays of numbers without nulls, as tensors with one axis.
//   - ToFixedShape and FromFixedShape: arrays of the canonical extension type arrow.fixed_shape_tensor, an array of N
//     tensors of one shape, as one tensor whose first axis has extent N. Register makes arrow-go read the type.
//   - ExportDevice and ImportDevice: the Arrow C device interface, for memory of any device that has addresses.
//
// # Ownership
//
// Nothing is copied. What the To functions return has a reference of its own to the memory of the tensor, which
// Arrow's reference counts release; the tensor may be closed before. What the From functions return has a reference
// to Arrow's buffer. The caller closes it, and releases its own reference to the array as always. If a function
// fails, it has kept no reference.
//
// # Order
//
// Data of Arrow does not change, so the tensors of the From functions may only be read; use Clone for memory to write
// to. The To functions wait for the last write to the tensor, or return ctx's error if ctx ends first. The program
// must not write to the memory as long as Arrow has it.
//
// # Element types
//
// Integers of 8 to 64 bits and floating-point numbers of 16, 32 and 64 bits. A bool of Arrow is one bit, so bools are
// refused with core.ErrDType: convert them to uint8 first. Package arrow/tensor has no float16.
package arrow
