// Package cudalike is the backend for all APIs that are like CUDA's driver API: contexts of
// devices, streams, events, memory at unified addresses. A backend of such an API is a [Driver],
// which is a table of its functions and answers by [Status], and its [Facts].
//
// The package calls the driver by the interfaces only, and needs no cgo. What calls are named and
// which codes they answer, it is told.
package cudalike
