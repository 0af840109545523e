// Package driver implements the driver interface of package cudalike by HIP's runtime. It opens libamdhip64 at run time
// and calls it by a table of its functions (table.h), so that a program with this package starts without the library.
//
// The headers may be of another version than the library. Where versions of HIP differ, the version of the library
// decides at run time: see abi.h.
package driver
