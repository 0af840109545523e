//go:build cgo

package main

// #include "dlx.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

var (
	routes  = newHandles[*exchange.Route]("route")
	reports = newHandles[made]("report")
)

// made is a report of package exchange, share or remote.
type made struct {
	exchange.Report              // what all have
	whole           fmt.Stringer // the report itself
	label           string       // of a tensor that was sent or received
}

// moveOptions reads the options of a move to d.
func moveOptions(d core.Device, o *C.dlx_move_options) (exchange.Options, error) {
	var options exchange.Options
	if o == nil {
		return options, nil
	}
	if err := unset(o.reserved[:]...); err != nil {
		return options, err
	}
	switch o.copy {
	case C.DLX_COPY_IF_NEEDED:
		options.Copy = exchange.IfNeeded
	case C.DLX_COPY_NEVER:
		options.Copy = exchange.Never
	case C.DLX_COPY_ALWAYS:
		options.Copy = exchange.Always
	default:
		return options, invalid("copy is %d, which is no DLX_COPY_*", o.copy)
	}
	if o.only < 0 || o.only > C.DLX_MECHANISM_STAGED {
		return options, invalid("only is %d, which is no DLX_MECHANISM_*", o.only)
	}
	options.Only = exchange.Mechanism(o.only)
	var err error
	if options.Stream, err = streams.getOptional(unsafe.Pointer(o.stream)); err != nil {
		return options, err
	}
	if options.SourceStream, err = streams.getOptional(unsafe.Pointer(o.source_stream)); err != nil {
		return options, err
	}
	options.Alloc, err = allocOptions(d, o.alloc)
	return options, err
}

// move reads the arguments of a move.
func move(tensor *C.dlx_tensor, device *C.dlx_device, o *C.dlx_move_options) (*core.Tensor, core.Device, exchange.Options, error) {
	t, err := tensors.get(unsafe.Pointer(tensor))
	if err != nil {
		return nil, nil, exchange.Options{}, err
	}
	d, err := devices.get(unsafe.Pointer(device))
	if err != nil {
		return nil, nil, exchange.Options{}, err
	}
	options, err := moveOptions(d, o)
	return t, d, options, err
}

// setMoved sets the results of a move, if there is no error.
func setMoved(result **C.dlx_tensor, report **C.dlx_report, t *core.Tensor, r exchange.Report, err error) error {
	if err == nil && report != nil {
		reports.add(unsafe.Pointer(report), made{Report: r, whole: r})
	}
	return setTensor(result, t, err)
}

//export dlxgo_to
func dlxgo_to(tensor *C.dlx_tensor, device *C.dlx_device, o *C.dlx_move_options, timeout C.int64_t, result **C.dlx_tensor, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("result", unsafe.Pointer(result)); err != nil {
			return err
		}
		t, d, options, err := move(tensor, device, o)
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			moved, r, err := exchange.To(ctx, t, d, options)
			return setMoved(result, report, moved, r, err)
		})
	})
}

//export dlxgo_plan
func dlxgo_plan(tensor *C.dlx_tensor, device *C.dlx_device, o *C.dlx_move_options, route **C.dlx_route, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("route", unsafe.Pointer(route)); err != nil {
			return err
		}
		t, d, options, err := move(tensor, device, o)
		if err != nil {
			return err
		}
		r, err := exchange.Plan(t, d, options)
		if err == nil {
			routes.add(unsafe.Pointer(route), r)
		}
		return err
	})
}

//export dlxgo_route_run
func dlxgo_route_run(route *C.dlx_route, timeout C.int64_t, result **C.dlx_tensor, report **C.dlx_report, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("result", unsafe.Pointer(result)); err != nil {
			return err
		}
		r, err := routes.get(unsafe.Pointer(route))
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			moved, done, err := r.Run(ctx)
			return setMoved(result, report, moved, done, err)
		})
	})
}

//export dlxgo_route_mechanism
func dlxgo_route_mechanism(route *C.dlx_route, mechanism *C.int32_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("mechanism", unsafe.Pointer(mechanism)); err != nil {
			return err
		}
		r, err := routes.get(unsafe.Pointer(route))
		if err == nil {
			*mechanism = C.int32_t(r.Mechanism)
		}
		return err
	})
}

//export dlxgo_route_text
func dlxgo_route_text(route *C.dlx_route, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		r, err := routes.get(unsafe.Pointer(route))
		if err != nil {
			return err
		}
		return setText(out, r.String())
	})
}

//export dlxgo_route_json
func dlxgo_route_json(route *C.dlx_route, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		r, err := routes.get(unsafe.Pointer(route))
		if err != nil {
			return err
		}
		return setJSON(out, r)
	})
}

//export dlxgo_route_close
func dlxgo_route_close(route *C.dlx_route, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		_, err := routes.take(unsafe.Pointer(route))
		return err
	})
}

//export dlxgo_report_get_info
func dlxgo_report_get_info(report *C.dlx_report, info *C.dlx_report_info, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("info", unsafe.Pointer(info)); err != nil {
			return err
		}
		r, err := reports.get(unsafe.Pointer(report))
		if err != nil {
			return err
		}
		*info = C.dlx_report_info{
			from:         deviceID(r.From),
			to:           deviceID(r.To),
			mechanism:    C.int32_t(r.Mechanism),
			wait:         C.int32_t(r.Wait),
			bytes_copied: C.int64_t(r.BytesCopied),
			duration_ns:  C.int64_t(r.Duration),
		}
		if r.Opened {
			info.opened = 1
		}
		return nil
	})
}

//export dlxgo_report_text
func dlxgo_report_text(report *C.dlx_report, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		r, err := reports.get(unsafe.Pointer(report))
		if err != nil {
			return err
		}
		return setText(out, r.whole.String())
	})
}

//export dlxgo_report_json
func dlxgo_report_json(report *C.dlx_report, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		r, err := reports.get(unsafe.Pointer(report))
		if err != nil {
			return err
		}
		return setJSON(out, r.whole)
	})
}

//export dlxgo_report_close
func dlxgo_report_close(report *C.dlx_report, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		_, err := reports.take(unsafe.Pointer(report))
		return err
	})
}

//export dlxgo_report_label
func dlxgo_report_label(report *C.dlx_report, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		r, err := reports.get(unsafe.Pointer(report))
		if err != nil {
			return err
		}
		return setText(out, r.label)
	})
}
