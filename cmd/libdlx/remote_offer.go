//go:build cgo

package main

// #include "entry.h"
import "C"

import (
	"context"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
)

var remoteOffers = newHandles[*remote.Offer]("remote_offer")

// offer makes an offer by call, the method Offer of a listener or a connection.
func offer(call func(*core.Tensor, remote.OfferOptions) (*remote.Offer, error), tensor *C.dlx_tensor, o *C.dlx_offer_options, out **C.dlx_remote_offer) error {
	t, err := tensors.get(unsafe.Pointer(tensor))
	if err != nil {
		return err
	}
	var options remote.OfferOptions
	if o != nil {
		if err := unset(o.reserved[:]...); err != nil {
			return err
		}
		if err := unset(o.reserved32); err != nil {
			return err
		}
		if o.writable != 0 && o.writable != 1 {
			return invalid("writable is %d, and neither 0 nor 1", o.writable)
		}
		options = remote.OfferOptions{Lease: time.Duration(o.lease_ns), Writable: o.writable == 1, Address: optionalText(o.address), Name: optionalText(o.name)}
	}
	x, err := call(t, options)
	if err == nil {
		remoteOffers.add(unsafe.Pointer(out), x)
	}
	return err
}

//export dlxgo_remote_listener_offer
func dlxgo_remote_listener_offer(handle *C.dlx_remote_listener, tensor *C.dlx_tensor, o *C.dlx_offer_options, out **C.dlx_remote_offer, e *C.dlx_error) C.dlx_status {
	return on(remoteListeners, unsafe.Pointer(handle), e, func(l remoteListener) error {
		if err := required("offer", unsafe.Pointer(out)); err != nil {
			return err
		}
		return offer(l.Offer, tensor, o, out)
	})
}

//export dlxgo_remote_connection_offer
func dlxgo_remote_connection_offer(handle *C.dlx_remote_connection, tensor *C.dlx_tensor, o *C.dlx_offer_options, out **C.dlx_remote_offer, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		if err := required("offer", unsafe.Pointer(out)); err != nil {
			return err
		}
		return offer(c.Offer, tensor, o, out)
	})
}

//export dlxgo_remote_offer_descriptor
func dlxgo_remote_offer_descriptor(handle *C.dlx_remote_offer, buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, e *C.dlx_error) C.dlx_status {
	return on(remoteOffers, unsafe.Pointer(handle), e, func(o *remote.Offer) error {
		if err := required("buffer", buffer); err != nil {
			return err
		}
		if err := required("size", unsafe.Pointer(size)); err != nil {
			return err
		}
		return setDescriptor(buffer, capacity, size, o.Descriptor())
	})
}

// setDescriptor copies a descriptor to a buffer of C.
func setDescriptor(buffer unsafe.Pointer, capacity C.size_t, size *C.size_t, b []byte) error {
	if C.size_t(len(b)) > capacity {
		return invalid("the descriptor has %d bytes, and capacity is %d: DLX_REMOTE_MAX_DESCRIPTOR is always enough", len(b), capacity)
	}
	copy(unsafe.Slice((*byte)(buffer), len(b)), b)
	*size = C.size_t(len(b))
	return nil
}

//export dlxgo_remote_offer_ended
func dlxgo_remote_offer_ended(handle *C.dlx_remote_offer, ended *C.int32_t, e *C.dlx_error) C.dlx_status {
	return on(remoteOffers, unsafe.Pointer(handle), e, func(o *remote.Offer) error {
		if err := required("ended", unsafe.Pointer(ended)); err != nil {
			return err
		}
		select {
		case <-o.Done():
			*ended = 1
		default:
		}
		return nil
	})
}

//export dlxgo_remote_offer_close
func dlxgo_remote_offer_close(handle *C.dlx_remote_offer, e *C.dlx_error) C.dlx_status {
	return closeHandle(remoteOffers, unsafe.Pointer(handle), e, (*remote.Offer).Close)
}

// descriptor copies a descriptor. Package remote checks what is in it.
func descriptor(data unsafe.Pointer, size C.size_t) ([]byte, error) {
	if err := required("descriptor", data); err != nil {
		return nil, err
	}
	if size > remote.MaxDescriptor {
		return nil, invalid("the descriptor has %d bytes; %d are possible", size, remote.MaxDescriptor)
	}
	return C.GoBytes(data, C.int(size)), nil
}

//export dlxgo_remote_describe
func dlxgo_remote_describe(data unsafe.Pointer, size C.size_t, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		b, err := descriptor(data, size)
		if err != nil {
			return err
		}
		d, err := describeOffer(b)
		if err != nil {
			return err
		}
		return setJSON(out, d)
	})
}

// description is what a descriptor claims, in JSON.
type description struct {
	remote.Description
	Bytes int64 `json:"bytes"`
}

// describeOffer reads a descriptor.
func describeOffer(b []byte) (d description, err error) {
	if d.Description, err = remote.Describe(b); err != nil {
		return d, err
	}
	if d.Shape == nil { // JSON has null for nil
		d.Shape = []int64{}
	}
	if d.Expires = d.Expires.UTC(); d.Expires.Year() > 9999 {
		return d, invalid("the descriptor expires in the year %d, which JSON cannot express", d.Expires.Year())
	}
	d.Bytes, err = bytesOf(d.Description)
	return d, err
}

// bytesOf returns the number of bytes of the elements of an offered tensor.
func bytesOf(d remote.Description) (int64, error) {
	layout, err := core.NewLayout(d.Shape...)
	if err != nil {
		return 0, err
	}
	return d.DType.Size(layout.NumElements(), d.Padded)
}

//export dlxgo_remote_connection_fetch
func dlxgo_remote_connection_fetch(handle *C.dlx_remote_connection, data unsafe.Pointer, size C.size_t, start, stop C.int64_t, device *C.dlx_device, timeout C.int64_t, tensor **C.dlx_tensor, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		b, d, err := wanted(data, size, device)
		if err != nil {
			return err
		}
		return c.within(timeout, func(ctx context.Context) error {
			t, r, err := c.FetchRows(ctx, b, int64(start), int64(stop), d)
			return setRemoteTensor(tensor, report, t, r, err)
		})
	})
}

// wanted returns the descriptor and the device of a fetch.
func wanted(data unsafe.Pointer, size C.size_t, device *C.dlx_device) ([]byte, core.Device, error) {
	b, err := descriptor(data, size)
	if err != nil {
		return nil, nil, err
	}
	d, err := devices.get(unsafe.Pointer(device))
	return b, d, err
}

//export dlxgo_remote_fetch
func dlxgo_remote_fetch(data unsafe.Pointer, size C.size_t, start, stop C.int64_t, device *C.dlx_device, o *C.dlx_remote_options, timeout C.int64_t, tensor **C.dlx_tensor, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		b, d, err := wanted(data, size, device)
		if err != nil {
			return err
		}
		options, p, err := remoteOptions(o)
		if err != nil {
			return err
		}
		of, err := remote.Describe(b)
		if err != nil {
			return err
		}
		if of.Address == "" {
			return invalid("the descriptor has no address: it is of an offer of a connection, so use dlx_remote_connection_fetch")
		}
		return p.within(timeout, func(ctx context.Context) error {
			c, err := remote.Dial(ctx, of.Address, options)
			if err != nil {
				return err
			}
			defer c.Close()
			t, r, err := c.FetchRows(ctx, b, int64(start), int64(stop), d)
			return setRemoteTensor(tensor, report, t, r, err)
		})
	})
}

//export dlxgo_remote_connection_put
func dlxgo_remote_connection_put(handle *C.dlx_remote_connection, data unsafe.Pointer, size C.size_t, start C.int64_t, tensor *C.dlx_tensor, timeout C.int64_t, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return on(remoteConnections, unsafe.Pointer(handle), e, func(c remoteConnection) error {
		b, err := descriptor(data, size)
		if err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		return c.within(timeout, func(ctx context.Context) error {
			var r remote.Report
			var err error
			if start == -1 {
				r, err = c.Put(ctx, b, t)
			} else {
				r, err = c.PutRows(ctx, b, int64(start), t)
			}
			if err == nil {
				setRemote(report, r, r, false)
			}
			return err
		})
	})
}
