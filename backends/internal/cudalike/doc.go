// Package cudalike is the backend for every API that is like CUDA's driver API: it has contexts, streams, events
// and one address space for all memory. A backend of such an API implements [Driver] with the API's functions, and
// fills in [Facts].
//
// The package calls the API only through [Driver] and [Context], so it needs no cgo. Each call returns a [Status],
// which has the name of the API's function, for errors, and the meaning of its code.
package cudalike
