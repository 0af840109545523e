//go:build cgo && unix

package pjrt

import (
	"reflect"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	xla "github.com/gomlx/go-xla/pjrt"
)

// go-xla keeps its handles in unexported fields. These functions read them, by name.

// field returns the pointer in a field of the struct that p points to; nil if p is nil.
func field(p reflect.Value, name string) (reflect.Value, error) {
	f := p.Elem().FieldByName(name)
	if !f.IsValid() || f.Kind() != reflect.Pointer {
		return f, core.Errorf(core.ErrVersion, apiName, "go-xla", "this version of go-xla has no field %s in %v; version 0.4.0 is known", name, p.Type())
	}
	return f, nil
}

// pluginOf returns the functions of the plugin of a client.
func pluginOf(client *xla.Client) (plugin, error) {
	api, err := field(reflect.ValueOf(client.Plugin()), "api")
	if err != nil {
		return plugin{}, err
	}
	p := plugin{api.UnsafePointer()}
	return p, p.complete()
}

// handleOf returns the PJRT_Buffer of b, which is borrowed.
func handleOf(b *xla.Buffer) (unsafe.Pointer, error) {
	wrapper, err := field(reflect.ValueOf(b), "wrapper")
	if err != nil {
		return nil, err
	}
	handle, err := field(wrapper, "c")
	if err != nil {
		return nil, err
	}
	return handle.UnsafePointer(), nil
}
