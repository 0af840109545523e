// Package link lets a program that imports gorgonia.org/cu start on machines without CUDA. It opens CUDA's library
// when it is first needed.
//
// By itself, cu links the program with libcuda, so the program would not start without the library. cu's init
// function also ends the process if cuInit fails. This package therefore defines every function of the driver API
// that cu and dlx call (symbols.h). Each is a jump to an address in memory. Before [Load] the jumps lead to functions
// that fail with CUDA_ERROR_NOT_INITIALIZED; only cuInit succeeds. [Load] makes them lead to the functions of the
// library. An empty libcuda.so in a directory at the front of the linker's search path satisfies -lcuda.
package link
