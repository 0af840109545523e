//go:build cuda && linux && cgo

package driver

import (
	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/internal/dl"
)

// LoadModule has the driver compile PTX.
func (c Context) LoadModule(ptx string) (raw uintptr, s Status) {
	defer dl.KeepHandlers()()
	s = c.Do(func() error {
		m, err := cu.LoadData(ptx)
		raw = handle(m)
		return err
	})
	return raw, s
}

// Function finds a kernel of a module, which it is valid as long as.
func (c Context) Function(module uintptr, name string) (raw uintptr, s Status) {
	defer dl.KeepHandlers()()
	s = c.Do(func() error {
		f, err := object[cu.Module](module).Function(name)
		raw = handle(f)
		return err
	})
	return raw, s
}

// UnloadModule gives a module back. No work may be using it.
func (c Context) UnloadModule(raw uintptr) Status {
	defer dl.KeepHandlers()()
	return c.Do(func() error { return object[cu.Module](raw).Unload() })
}
