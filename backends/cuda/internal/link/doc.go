// Package link makes a program that imports gorgonia.org/cu start on machines without
// CUDA, and calls of CUDA's driver API reach a library that is opened when it is first needed.
//
// cu asks the linker for libcuda, so that the program would not start where that is
// missing, and its init function ends the process where cuInit fails. This package
// defines every function of the driver API that cu and dlx call (symbols.h) as a jump
// to an address in memory, so nothing is missing; before [Load] the jumps lead to functions that
// fail with CUDA_ERROR_NOT_INITIALIZED, except cuInit, which succeeds. A folder in
// front of the linker's search path has an empty libcuda.so, so that -lcuda is met.
package link
