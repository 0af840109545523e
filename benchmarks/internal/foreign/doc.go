// Package foreign holds the C functions that package benchmarks measures: an empty call, memcpy, and a
// consumer and a producer of DLPack structs, as a C library would have them. Each does as little as possible.
//
// Without cgo, and on Windows, [Available] says why they are missing.
package foreign
