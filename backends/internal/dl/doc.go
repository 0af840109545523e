// Package dl opens the shared library of a driver at run time, so that a program
// that can use it starts without it. [Open] tries names until one can be loaded,
// [Library.Resolve] fills a table with the addresses of its functions. What is
// missing is an error that names the library, the symbol and the loader's words.
// [KeepHandlers] protects Go's handlers of signals from what drivers do to them.
//
// It works with cgo on Linux; elsewhere Open fails with core.ErrNotSupported.
package dl

// Symbol is a function of a library: an entry of a table for [Library.Resolve].
type Symbol struct {
	Name    string   // as the library exports it
	Since   string   // the version of the API that the function came with, for the error; may be empty
	Address *uintptr // where the address is stored; set to 0 for an optional symbol that is missing
	// Optional says that a library without the symbol can be used all the same.
	Optional bool
}
