//go:build cgo

package main

// #include "entry.h"
import "C"

import (
	"context"
	"crypto/sha256"
	"unsafe"

	"github.com/dlx-go/dlx/remote"
)

// setSum writes a checksum to an array of C, if there is no error.
func setSum(out *C.uint8_t, sum [sha256.Size]byte, err error) error {
	if err == nil {
		*(*[sha256.Size]byte)(unsafe.Pointer(out)) = sum
	}
	return err
}

//export dlxgo_remote_connection_checksum
func dlxgo_remote_connection_checksum(handle *C.dlx_remote_connection, data unsafe.Pointer, size C.size_t, start, stop, timeout C.int64_t, out *C.uint8_t, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		if err := required("sum", unsafe.Pointer(out)); err != nil {
			return err
		}
		b, err := descriptor(data, size)
		if err != nil {
			return err
		}
		return c.within(timeout, func(ctx context.Context) error {
			sum, err := c.Checksum(ctx, b, int64(start), int64(stop))
			return setSum(out, sum, err)
		})
	})
}

//export dlxgo_remote_checksum
func dlxgo_remote_checksum(tensor *C.dlx_tensor, poll C.dlx_poll, pollContext unsafe.Pointer, timeout C.int64_t, out *C.uint8_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("sum", unsafe.Pointer(out)); err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		return newPoller(poll, pollContext).within(timeout, func(ctx context.Context) error {
			sum, err := remote.Sum(ctx, t)
			return setSum(out, sum, err)
		})
	})
}
