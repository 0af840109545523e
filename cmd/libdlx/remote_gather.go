//go:build cgo

package main

// #include "entry.h"
import "C"

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
)

// gathered is the report of a tensor that came from several processes.
type gathered struct {
	remote.Report
	Sources []gatheredSource `json:"sources"`
}

type gatheredSource struct {
	remote.SourceReport
	Error string `json:"error,omitempty"`
}

// numbered is an error with an errno, which its text does not name.
type numbered struct {
	error
	errno syscall.Errno
}

func (e numbered) Unwrap() []error { return []error{e.error, e.errno} }

// unconnected gives the error that no source is left an errno if a source has failed because of its connection. Other languages
// cannot look at the errors of the sources, and one that has refused the request looks the same otherwise. An errno of the system
// comes first.
func unconnected(err error, sources []remote.SourceReport) error {
	if !errors.Is(err, core.ErrClosed) {
		return err
	}
	for _, s := range sources {
		ended := (*remote.ConnError)(nil)
		switch {
		case errors.Is(s.Err, net.ErrClosed): // this process has closed it
		case !errors.As(s.Err, &ended) && !errors.Is(s.Err, os.ErrDeadlineExceeded):
		case s.Peer == "":
			return numbered{err, syscall.ECONNREFUSED}
		default:
			return numbered{err, syscall.ECONNRESET}
		}
	}
	return err
}

// setGathered makes handles of a tensor that came from several processes and of its report, if there is no error.
func setGathered(out **C.dlx_tensor, report **C.dlx_report, t *core.Tensor, r remote.GatherReport, err error) error {
	if err == nil {
		whole := gathered{Report: r.Report, Sources: []gatheredSource{}}
		for _, s := range r.Sources {
			x := gatheredSource{SourceReport: s}
			if s.Err != nil {
				x.Error = textOf(s.Err)
			}
			whole.Sources = append(whole.Sources, x)
		}
		setRemote(report, r.Report, whole, true)
	}
	return setTensor(out, t, unconnected(err, r.Sources))
}

// counted checks the number of elements of an array of C before they are read: a number that was negative, or never set, is huge.
func counted(name string, count C.size_t) error {
	if count > C.DLX_REMOTE_MAX_COUNT {
		return invalid("%s is %d: at most %d are possible", name, count, C.DLX_REMOTE_MAX_COUNT)
	}
	return nil
}

// partAt reads element i of an array of C.
func partAt(parts *C.dlx_remote_part, i uintptr) (part remote.Part, err error) {
	p := (*C.dlx_remote_part)(unsafe.Add(unsafe.Pointer(parts), i*unsafe.Sizeof(*parts)))
	if err := unset(p.reserved[:]...); err != nil {
		return part, err
	}
	part = remote.Part{Start: int64(p.start), Stop: int64(p.stop), At: int64(p.at)}
	if part.Start == 0 && part.Stop == -1 { // as in dlx_remote_fetch
		part.Stop = 0
	}
	if part.Descriptor, err = descriptor(p.descriptor, p.size); err != nil {
		return part, err
	}
	c, err := remoteConnections.getOptional(unsafe.Pointer(p.connection))
	part.Conn = c.Conn
	return part, err
}

//export dlxgo_remote_gather
func dlxgo_remote_gather(parts *C.dlx_remote_part, count C.size_t, device *C.dlx_device, o *C.dlx_remote_options, timeout C.int64_t, tensor **C.dlx_tensor, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		if err := required("parts", unsafe.Pointer(parts)); err != nil {
			return err
		}
		if err := counted("count", count); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		options, p, err := remoteOptions(o)
		if err != nil {
			return err
		}
		var sources []remote.Part
		for i := range uintptr(count) {
			part, err := partAt(parts, i)
			if err != nil {
				return err
			}
			sources = append(sources, part)
		}
		return p.within(timeout, func(ctx context.Context) error {
			t, r, err := remote.Gather(ctx, sources, d, options)
			return setGathered(tensor, report, t, r, err)
		})
	})
}

// fanoutOf reads the description of a relay.
func fanoutOf(f *C.dlx_remote_fanout) (out remote.Fanout, err error) {
	if err := required("fanout", unsafe.Pointer(f)); err != nil {
		return out, err
	}
	if err := unset(f.reserved[:]...); err != nil {
		return out, err
	}
	if err := unset(f.reserved32); err != nil {
		return out, err
	}
	if out.Descriptor, err = descriptor(f.descriptor, f.size); err != nil {
		return out, err
	}
	if err := counted("peer_count", f.peer_count); err != nil {
		return out, err
	}
	out.Width = int(f.width)
	for i := range uintptr(f.peer_count) {
		address, err := textAt("peers", f.peers, i)
		if err != nil {
			return out, err
		}
		out.Peers = append(out.Peers, address)
	}
	return out, nil
}

//export dlxgo_remote_listener_relay
func dlxgo_remote_listener_relay(handle *C.dlx_remote_listener, f *C.dlx_remote_fanout, self C.size_t, device *C.dlx_device, timeout C.int64_t, tensor **C.dlx_tensor, offer **C.dlx_remote_offer, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return on(remoteListeners, unsafe.Pointer(handle), e, func(l remoteListener) error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		if err := required("offer", unsafe.Pointer(offer)); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		plan, err := fanoutOf(f)
		if err != nil {
			return err
		}
		if self >= C.size_t(len(plan.Peers)) {
			return invalid("self is %d, and there are %d peers", self, len(plan.Peers))
		}
		return l.within(timeout, func(ctx context.Context) error {
			t, x, r, err := l.Relay(ctx, plan, int(self), d)
			if err == nil {
				remoteOffers.add(unsafe.Pointer(offer), x)
			}
			return setGathered(tensor, report, t, r, err)
		})
	})
}
