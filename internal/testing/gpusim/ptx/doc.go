// Package ptx runs kernels in PTX on the host. Its C files are part of the simulated driver, which interprets
// what a GPU would compile. The Go API is for tests of kernels and of the interpreter itself. ptx.h says
// which part of PTX is covered.
package ptx
