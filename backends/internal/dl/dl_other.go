//go:build !(linux && cgo)

package dl

import "github.com/dlx-go/dlx/core"

// Library is an open shared library. This build cannot open any.
type Library struct{}

// Open fails with core.ErrNotSupported.
func Open(backend string, _ ...string) (*Library, error) {
	return nil, core.Errorf(core.ErrNotSupported, backend, "dlopen", "this build cannot open libraries: build on Linux with cgo")
}

// Name returns "".
func (*Library) Name() string { return "" }

// Lookup returns 0.
func (*Library) Lookup(string) uintptr { return 0 }

// Resolve does nothing: there is no Library to call it on.
func (*Library) Resolve([]Symbol) error { return nil }

// Close does nothing.
func (*Library) Close() error { return nil }

// KeepHandlers does nothing: this build opens no driver that could change handlers.
func KeepHandlers() (putBack func()) { return func() {} }

func (Room) check(string, string) error { return nil }
