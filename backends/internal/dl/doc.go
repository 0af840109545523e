// Package dl opens the shared library of a driver at run time, so that a program starts without it. [Open]
// tries names until it can load one, and [Library.Resolve] fills a table with the addresses of the library's
// functions. Errors name the library, the symbol and the loader's message. [KeepHandlers] restores the
// program's signal handlers after a driver has replaced them.
//
// The package works on Linux with cgo. In other builds Open fails with core.ErrNotSupported.
package dl

// Symbol is a function of a library: an entry of a table for [Library.Resolve].
type Symbol struct {
	Name    string   // as the library exports it
	Since   string   // the version of the API that introduced the function, for the error; may be empty
	Address *uintptr // where the address is stored; set to 0 for an optional symbol that is missing
	// Optional says that the library can be used without the symbol.
	Optional bool
}
