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
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		if err := required("list", unsafe.Pointer(out)); err != nil {
			return err
		}
		if err := required("count", unsafe.Pointer(count)); err != nil {
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
	return on(remoteLists, unsafe.Pointer(handle), e, func(list []remote.Listed) error {
		if err := required("name", unsafe.Pointer(name)); err != nil {
			return err
		}
		if err := required("buffer", buffer); err != nil {
			return err
		}
		if err := required("size", unsafe.Pointer(size)); err != nil {
			return err
		}
		if index >= C.size_t(len(list)) {
			return invalid("index is %d, and the list has %d offers", index, len(list))
		}
		if err := setDescriptor(buffer, capacity, size, list[index].Descriptor); err != nil {
			return err
		}
		return setText(name, nameOf(list[index]))
	})
}

// nameOf returns the name of an offer as UTF-8.
func nameOf(x remote.Listed) string { return strings.ToValidUTF8(x.Name, "\uFFFD") }

// listed is an offer with a name, in JSON.
type listed struct {
	Name       string `json:"name"`
	Descriptor []byte `json:"descriptor"`
	description
}

//export dlxgo_remote_list_json
func dlxgo_remote_list_json(handle *C.dlx_remote_list, start, stop C.size_t, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return on(remoteLists, unsafe.Pointer(handle), e, func(list []remote.Listed) error {
		if start > stop || stop > C.size_t(len(list)) {
			return invalid("offers %d to %d were asked for, and the list has %d", start, stop, len(list))
		}
		described := make([]listed, 0, stop-start)
		for _, x := range list[start:stop] {
			d, err := describeOffer(x.Descriptor)
			if err != nil {
				return err
			}
			described = append(described, listed{nameOf(x), x.Descriptor, d})
		}
		return setJSON(out, described)
	})
}

//export dlxgo_remote_list_close
func dlxgo_remote_list_close(handle *C.dlx_remote_list, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		_, err := remoteLists.take(unsafe.Pointer(handle))
		return err
	})
}
