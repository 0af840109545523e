//go:build cgo

package main

// #include "entry.h"
import "C"

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/share"
)

var (
	listeners   = newHandles[listener]("listener")
	connections = newHandles[connection]("connection")
)

// poller is the dlx_poll of a program; poll is 0 if there is none.
type poller struct{ poll, context C.uintptr_t }

type listener struct {
	*share.Listener
	poller
}

type connection struct {
	*share.Conn
	poller
}

// within is the function within, with a call that the program can stop.
func (p poller) within(timeout C.int64_t, call func(ctx context.Context) error) error {
	if p.poll == 0 {
		return within(timeout, call)
	}
	return within(timeout, func(ctx context.Context) error {
		return polling(ctx, call, p.call)
	})
}

// resume is within, for a call that can begin again: see poll.go.
func (p poller) resume(timeout C.int64_t, call func(ctx context.Context) error) error {
	switch {
	case timeout < 0:
		return within(timeout, call) // which says why not
	case p.poll == 0:
		return again(time.Duration(timeout), nil, call, nil)
	}
	return again(time.Duration(timeout), p.call, call, nil)
}

// hasten is within, for a call that can begin again once: see poll.go.
func (p poller) hasten(timeout C.int64_t, call func(ctx context.Context) error) error {
	if timeout < 0 || p.poll == 0 {
		return within(timeout, call)
	}
	return again(time.Duration(timeout), p.call, call, call)
}

// call calls dlx_poll, on the thread of the caller.
func (p poller) call() int32 { return int32(C.dlx_call_poll(p.poll, p.context)) }

// shareOptions reads the options of a listener or a connection.
func shareOptions(o *C.dlx_share_options) (options share.Options, p poller, err error) {
	if o == nil {
		return options, p, nil
	}
	if err := unset(o.reserved[:]...); err != nil {
		return options, p, err
	}
	if o.devices == nil && o.device_count > 0 {
		return options, p, invalid("devices is NULL, and device_count is %d", o.device_count)
	}
	if o.device_count > 64 {
		return options, p, invalid("device_count is %d; 64 devices are possible", o.device_count)
	}
	for i := range uintptr(o.device_count) {
		d, err := devices.get(*(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(o.devices), i*unsafe.Sizeof(o.devices))))
		if err != nil {
			return options, p, core.Errorf(err, origin, "", "devices[%d]", i)
		}
		options.Devices = append(options.Devices, d)
	}
	if o.read_only != 0 && o.read_only != 1 {
		return options, p, invalid("read_only is %d, and neither 0 nor 1", o.read_only)
	}
	if o.mode < 0 || o.mode > 0o777 {
		return options, p, invalid("mode is %#o: it can have permissions only", o.mode)
	}
	options.ReadOnly, options.Mode = o.read_only == 1, fs.FileMode(o.mode)
	options.Limits = share.Limits{Tensors: int(o.limit_tensors), Memories: int(o.limit_memories), Bytes: int64(o.limit_bytes)}
	options.UserLimits = share.UserLimits{
		Connections: int(o.user_limit_connections), Descriptors: int(o.user_limit_descriptors), Bytes: int64(o.user_limit_bytes),
	}
	if o.poll != nil {
		p = poller{C.uintptr_t(uintptr(unsafe.Pointer(o.poll))), C.uintptr_t(uintptr(o.poll_context))}
	}
	return options, p, nil
}

// setConnection makes a handle of a connection, if there is no error.
func setConnection(out **C.dlx_connection, c *share.Conn, p poller, err error) error {
	if err == nil {
		connections.add(unsafe.Pointer(out), connection{c, p})
	}
	return err
}

//export dlxgo_share_listen
func dlxgo_share_listen(path *C.char, o *C.dlx_share_options, out **C.dlx_listener, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("listener", unsafe.Pointer(out)); err != nil {
			return err
		}
		if err := required("path", unsafe.Pointer(path)); err != nil {
			return err
		}
		options, p, err := shareOptions(o)
		if err != nil {
			return err
		}
		l, err := share.Listen(C.GoString(path), options)
		if err == nil {
			listeners.add(unsafe.Pointer(out), listener{l, p})
		}
		return err
	})
}

//export dlxgo_listener_accept
func dlxgo_listener_accept(handle *C.dlx_listener, timeout C.int64_t, out **C.dlx_connection, e *C.dlx_error) C.dlx_status {
	return on(listeners, unsafe.Pointer(handle), e, func(l listener) error {
		if err := required("connection", unsafe.Pointer(out)); err != nil {
			return err
		}
		return l.within(timeout, func(ctx context.Context) error {
			c, err := l.Accept(ctx)
			return setConnection(out, c, l.poller, err)
		})
	})
}

//export dlxgo_listener_close
func dlxgo_listener_close(handle *C.dlx_listener, e *C.dlx_error) C.dlx_status {
	return closeHandle(listeners, unsafe.Pointer(handle), e, listener.Close)
}

//export dlxgo_share_connect
func dlxgo_share_connect(path *C.char, o *C.dlx_share_options, timeout C.int64_t, out **C.dlx_connection, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("connection", unsafe.Pointer(out)); err != nil {
			return err
		}
		if err := required("path", unsafe.Pointer(path)); err != nil {
			return err
		}
		options, p, err := shareOptions(o)
		if err != nil {
			return err
		}
		where := C.GoString(path)
		return p.within(timeout, func(ctx context.Context) error {
			c, err := share.Dial(ctx, where, options)
			return setConnection(out, c, p, err)
		})
	})
}

//export dlxgo_share_adopt
func dlxgo_share_adopt(fd C.int32_t, o *C.dlx_share_options, out **C.dlx_connection, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("connection", unsafe.Pointer(out)); err != nil {
			return err
		}
		options, p, err := shareOptions(o)
		if err != nil {
			return err
		}
		c, err := adopt(int(fd), options)
		return setConnection(out, c, p, err)
	})
}

//export dlxgo_share_alloc
func dlxgo_share_alloc(device *C.dlx_device, cSpec *C.dlx_tensor_spec, timeout C.int64_t, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		s, err := newSpec(cSpec)
		if err != nil {
			return err
		}
		export, err := shareable(d, "dlx_share_alloc")
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			t, err := core.Empty(ctx, d, s.DType, s.Shape, core.AllocOptions{Export: export})
			return setTensor(tensor, t, err)
		})
	})
}

// shareable returns the type of handles as which a device exports memory to other processes.
func shareable(d core.Device, call string) (core.HandleType, error) {
	if e, ok := core.As[core.MemoryExporter](d); ok {
		for _, t := range e.ExportTypes() {
			if t.IsFD() {
				return t, nil
			}
		}
	}
	return 0, core.Errorf(core.ErrNotSupported, origin, call, "%v has no memory that other processes can open: send other memory, which is copied then", d.ID())
}

//export dlxgo_share_copy
func dlxgo_share_copy(tensor *C.dlx_tensor, device *C.dlx_device, timeout C.int64_t, result **C.dlx_tensor, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("result", unsafe.Pointer(result)); err != nil {
			return err
		}
		t, d, _, err := move(tensor, device, nil)
		if err != nil {
			return err
		}
		export, err := shareable(d, "dlx_share_copy")
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			copied, r, err := exchange.To(ctx, t, d, exchange.Options{Copy: exchange.Always, Alloc: core.AllocOptions{Export: export}})
			return setMoved(result, report, copied, r, err)
		})
	})
}

//export dlxgo_share_memory
func dlxgo_share_memory(tensor *C.dlx_tensor, fd *C.int32_t, offset *C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("fd", unsafe.Pointer(fd)); err != nil {
			return err
		}
		if err := required("offset", unsafe.Pointer(offset)); err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		b, err := t.Buffer()
		if err != nil {
			return err
		}
		if err := b.Retain(); err != nil { // t may be closed by another thread
			return err
		}
		defer b.Release()
		number, at, err := memfd(b)
		if err == nil {
			*fd, *offset = C.int32_t(number), C.int64_t(at+t.Offset()-b.Memory().Offset)
		}
		return err
	})
}

// memfd returns a new descriptor of the memfd on which a buffer lies, and where it begins there.
func memfd(b *core.Buffer) (fd int, at int64, err error) {
	d := b.Memory().Device
	e, ok := core.As[core.MemoryExporter](d)
	if d == nil || !ok || !slices.Contains(e.ExportTypes(), core.HandleMemFD) {
		return -1, 0, core.Errorf(core.ErrNotSupported, origin, "dlx_share_memory", "memory of %v that no device of the host has allocated is no memfd: use dlx_share_alloc", b.Memory().ID)
	}
	x, err := e.ExportMemory(b, core.HandleMemFD)
	if err != nil {
		return -1, 0, core.Errorf(core.ErrNotSupported, origin, "dlx_share_memory", "the memory is no memfd: use dlx_share_alloc: %v", err)
	}
	defer x.Close()
	number, err := x.Handle.Number()
	if err == nil {
		fd, err = duplicate(int(number), "dlx_share_memory")
	}
	return fd, x.Offset, err
}

//export dlxgo_connection_send
func dlxgo_connection_send(handle *C.dlx_connection, tensor *C.dlx_tensor, label *C.char, timeout C.int64_t, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return on(connections, unsafe.Pointer(handle), e, func(c connection) error {
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		text := optionalText(label)
		return c.hasten(timeout, func(ctx context.Context) error {
			r, err := c.SendLabeled(ctx, t, text)
			if err == nil {
				setShared(report, r)
			}
			return err
		})
	})
}

// setShared makes a handle of a report, unless report is nil.
func setShared(report **C.dlx_report, r share.Report) {
	if report == nil {
		return
	}
	reports.add(unsafe.Pointer(report), made{
		Report: exchange.Report{From: r.From, To: r.To, Mechanism: r.Mechanism, BytesCopied: r.BytesCopied, Opened: r.Opened, Wait: r.Wait, Duration: r.Duration},
		whole:  r,
		label:  r.Label,
	})
}

//export dlxgo_connection_receive
func dlxgo_connection_receive(handle *C.dlx_connection, device *C.dlx_device, timeout C.int64_t, tensor **C.dlx_tensor, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		return receive(handle, device, timeout, func(t *core.Tensor, r share.Report) error {
			setShared(report, r)
			return setTensor(tensor, t, nil)
		})
	})
}

//export dlxgo_connection_receive_described
func dlxgo_connection_receive_described(handle *C.dlx_connection, device *C.dlx_device, timeout C.int64_t, tensor **C.dlx_tensor, info *C.dlx_tensor_info, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		if err := required("info", unsafe.Pointer(info)); err != nil {
			return err
		}
		return receive(handle, device, timeout, func(t *core.Tensor, r share.Report) error {
			described, err := tensorInfo(t)
			if err != nil {
				t.Close()
				return err
			}
			*info = described
			setShared(report, r)
			return setTensor(tensor, t, nil)
		})
	})
}

// receive waits for a tensor of the other process, and passes it to take, which owns it.
func receive(handle *C.dlx_connection, device *C.dlx_device, timeout C.int64_t, take func(*core.Tensor, share.Report) error) error {
	c, err := connections.get(unsafe.Pointer(handle))
	if err != nil {
		return err
	}
	d, err := devices.getOptional(unsafe.Pointer(device))
	if err != nil {
		return err
	}
	return c.hasten(timeout, func(ctx context.Context) error { // opening the memory may take long, or copying it
		t, r, err := c.Receive(ctx, d)
		if err != nil {
			return err
		}
		return take(t, r)
	})
}

//export dlxgo_connection_wait_released
func dlxgo_connection_wait_released(handle *C.dlx_connection, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return on(connections, unsafe.Pointer(handle), e, func(c connection) error {
		return c.resume(timeout, c.WaitReleased)
	})
}

//export dlxgo_connection_error
func dlxgo_connection_error(handle *C.dlx_connection, e *C.dlx_error) C.dlx_status {
	return on(connections, unsafe.Pointer(handle), e, connection.Err)
}

// stateOf returns what a connection that has ended with err is in C.
func stateOf(err error) C.int32_t {
	switch {
	case err == nil:
		return C.DLX_CONNECTION_OPEN
	case errors.Is(err, net.ErrClosed):
		return C.DLX_CONNECTION_CLOSED
	case errors.Is(err, io.EOF):
		return C.DLX_CONNECTION_ENDED
	case errors.Is(err, core.ErrClosed):
		return C.DLX_CONNECTION_LOST
	default:
		return C.DLX_CONNECTION_REFUSED
	}
}

//export dlxgo_connection_get_info
func dlxgo_connection_get_info(handle *C.dlx_connection, info *C.dlx_connection_info, e *C.dlx_error) C.dlx_status {
	return on(connections, unsafe.Pointer(handle), e, func(c connection) error {
		if err := required("info", unsafe.Pointer(info)); err != nil {
			return err
		}
		p, s := c.Peer(), c.Stats()
		*info = C.dlx_connection_info{
			state: stateOf(c.Err()),
			pid:   C.int32_t(p.PID), uid: C.uint32_t(p.UID), gid: C.uint32_t(p.GID),
			sent: C.int64_t(s.Sent), received: C.int64_t(s.Received), released: C.int64_t(s.Released),
			in_flight: C.int64_t(s.InFlight), held: C.int64_t(s.Held),
			bytes_sent: C.int64_t(s.BytesSent), bytes_received: C.int64_t(s.BytesReceived), bytes_copied: C.int64_t(s.BytesCopied),
			memories_sent: C.int64_t(s.MemoriesSent), memories_opened: C.int64_t(s.MemoriesOpened),
		}
		return nil
	})
}

//export dlxgo_connection_json
func dlxgo_connection_json(handle *C.dlx_connection, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return on(connections, unsafe.Pointer(handle), e, func(c connection) error {
		return setJSON(out, struct {
			Peer  share.Peer  `json:"peer"`
			Stats share.Stats `json:"stats"`
		}{c.Peer(), c.Stats()})
	})
}

//export dlxgo_connection_close
func dlxgo_connection_close(handle *C.dlx_connection, e *C.dlx_error) C.dlx_status {
	return closeHandle(connections, unsafe.Pointer(handle), e, connection.Close)
}
