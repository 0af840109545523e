// Package foreign is the other side of DLPack as a well-written C library would
// be, and the C functions that package benchmarks measures beside: a call that does
// nothing, a consumer, a producer, memcpy. Each does as little as it can.
//
// Without cgo, and on Windows, [Available] says why there is none of that.
package foreign
