//go:build cuda && linux && cgo

package driver

import (
	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

func (c context) LoadModule(ptx string) (raw uintptr, s cudalike.Status) {
	defer dl.KeepHandlers()()
	s = c.do("cuModuleLoadData", func() error {
		m, err := cu.LoadData(ptx)
		raw = handle(m)
		return err
	})
	return raw, s
}

func (c context) Function(module uintptr, name string) (raw uintptr, s cudalike.Status) {
	defer dl.KeepHandlers()()
	s = c.do("cuModuleGetFunction", func() error {
		f, err := object[cu.Module](module).Function(name)
		raw = handle(f)
		return err
	})
	return raw, s
}

func (c context) UnloadModule(raw uintptr) cudalike.Status {
	defer dl.KeepHandlers()()
	return c.do("cuModuleUnload", func() error { return object[cu.Module](raw).Unload() })
}
