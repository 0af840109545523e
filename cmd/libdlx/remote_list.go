//go:build cgo

package main

// #include "entry.h"
import "C"

import (
	"context"
	"strings"
	"unsafe"

	"github.com/dlx-go/dlx/remote"
)

var remoteLists = newHandles[[]remote.Listed]("remote_list")

//export dlxgo_remote_connection_list
func dlxgo_remote_connection_list(handle *C.dlx_remote_connection, timeout C.int64_t, out **C.dlx_remote_list, count *C.size_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("list", unsafe.Pointer(out)); err != nil {
			return err
		}
		if err := required("count", unsafe.Pointer(count)); err != nil {
			return err
		}
		c, err := remoteConnections.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		return c.within(timeout, func(ctx context.Context) error {
			list, err := c.List(ctx)
			if err == nil {
				*count = C.size_t(len(list))
				remoteLists.add(unsafe.Pointer(out), list)
			}
			return err
		})
	})
}

//export dlxgo_remote_list_at
func dlxgo_remote_list_at(handle *C.dlx_remote_list, index C.size_t, name **C.dlx_text, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("name", unsafe.Pointer(name)); err != nil {
			return err
		}
		if err := required("buffer", buffer); err != nil {
			return err
		}
		if err := required("size", unsafe.Pointer(size)); err != nil {
			return err
		}
		list, err := remoteLists.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		if index >= C.size_t(len(list)) {
			return invalid("index is %d, and the list has %d offers", index, len(list))
		}
		if err := setDescriptor(buffer, capacity, size, list[index].Descriptor); err != nil {
			return err
		}
		return setText(name, strings.ToValidUTF8(list[index].Name, "\uFFFD"))
	})
}

//export dlxgo_remote_list_close
func dlxgo_remote_list_close(handle *C.dlx_remote_list, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		_, err := remoteLists.take(unsafe.Pointer(handle))
		return err
	})
}
