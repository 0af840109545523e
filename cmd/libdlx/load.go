//go:build cgo

package main

// #include "entry.h"
import "C"

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/tensorfile"
)

var loads = newHandles[*tensorfile.Loaded]("loaded")

// loadOptions reads the options of a load.
func loadOptions(o *C.dlx_load_options) (options tensorfile.LoadOptions, err error) {
	if o == nil {
		return options, nil
	}
	if err := unset(o.reserved[:]...); err != nil {
		return options, err
	}
	if o.only == nil && o.only_count > 0 {
		return options, invalid("only is NULL, and only_count is %d", o.only_count)
	}
	for i := range uintptr(o.only_count) {
		glob, err := textAt("only", o.only, i)
		if err != nil {
			return options, err
		}
		options.Only = append(options.Only, glob)
	}
	if o.slices == nil && o.slice_count > 0 {
		return options, invalid("slices is NULL, and slice_count is %d", o.slice_count)
	}
	for i := range uintptr(o.slice_count) {
		s := (*C.dlx_slice)(unsafe.Add(unsafe.Pointer(o.slices), i*unsafe.Sizeof(*o.slices)))
		if err := unset(s.reserved32); err != nil {
			return options, err
		}
		options.Slices = append(options.Slices, tensorfile.Slice{Name: optionalText(s.name), Axis: int(s.axis), Index: int64(s.index), Count: int64(s.count)})
	}
	for _, flag := range []struct {
		name  string
		value C.int32_t
		to    *bool
	}{{"row_major", o.row_major, &options.RowMajor}, {"writable", o.writable, &options.Writable}} {
		if flag.value != 0 && flag.value != 1 {
			return options, invalid("%s is %d, and neither 0 nor 1", flag.name, flag.value)
		}
		*flag.to = flag.value == 1
	}
	if options.VoidAs, err = voidTypes(o.void_as, o.void_count); err != nil {
		return options, err
	}
	options.DType = dtype(o.dtype)
	options.Read = tensorfile.ReadMode(optionalText(o.read))
	options.Checksum = tensorfile.Checksum(optionalText(o.checksum))
	options.Threads, options.Budget = int(o.threads), int64(o.budget)
	return options, nil
}

// optionalText returns a text of C, "" for NULL.
func optionalText(text *C.char) string {
	if text == nil {
		return ""
	}
	return C.GoString(text)
}

//export dlxgo_load
func dlxgo_load(paths **C.char, count C.size_t, device *C.dlx_device, o *C.dlx_load_options, timeout C.int64_t, loaded **C.dlx_loaded, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("loaded", unsafe.Pointer(loaded)); err != nil {
			return err
		}
		d, err := devices.get(unsafe.Pointer(device))
		if err != nil {
			return err
		}
		var from []string
		for i := range uintptr(count) {
			path, err := textAt("paths", paths, i)
			if err != nil {
				return err
			}
			from = append(from, path)
		}
		options, err := loadOptions(o)
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			load := func(ctx context.Context) (*tensorfile.Loaded, error) {
				return tensorfile.LoadAll(ctx, from, d, options)
			}
			var l *tensorfile.Loaded
			var err error
			if o != nil && o.progress != nil {
				l, err = reporting(ctx, &options, load, func(done, total int64) int32 {
					return int32(C.dlx_call_progress(o, C.int64_t(done), C.int64_t(total)))
				})
			} else {
				l, err = load(ctx)
			}
			if err == nil {
				loads.add(unsafe.Pointer(loaded), l)
			}
			return err
		})
	})
}

//export dlxgo_loaded_json
func dlxgo_loaded_json(loaded *C.dlx_loaded, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		l, err := loads.get(unsafe.Pointer(loaded))
		if err != nil {
			return err
		}
		return setJSON(out, struct {
			Names     []string              `json:"names"`
			Checksums map[string]string     `json:"checksums,omitempty"`
			Report    tensorfile.LoadReport `json:"report"`
		}{append([]string{}, l.Names...), l.Report.Checksums, l.Report})
	})
}

// setLoaded makes a handle of the loaded tensor with the given name.
func setLoaded(out **C.dlx_tensor, l *tensorfile.Loaded, name string) error {
	t, ok := l.Tensors[name]
	if !ok {
		return invalid("no tensor with the name %q was loaded", name)
	}
	shared, err := t.Share()
	return setTensor(out, shared, err)
}

//export dlxgo_loaded_tensor
func dlxgo_loaded_tensor(loaded *C.dlx_loaded, name *C.char, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		if err := required("name", unsafe.Pointer(name)); err != nil {
			return err
		}
		l, err := loads.get(unsafe.Pointer(loaded))
		if err != nil {
			return err
		}
		return setLoaded(tensor, l, C.GoString(name))
	})
}

//export dlxgo_loaded_at
func dlxgo_loaded_at(loaded *C.dlx_loaded, index C.size_t, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		l, err := loads.get(unsafe.Pointer(loaded))
		if err != nil {
			return err
		}
		if uint64(index) >= uint64(len(l.Names)) {
			return invalid("there is no tensor %d: %d were loaded", index, len(l.Names))
		}
		return setLoaded(tensor, l, l.Names[index])
	})
}

//export dlxgo_loaded_close
func dlxgo_loaded_close(loaded *C.dlx_loaded, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		l, err := loads.take(unsafe.Pointer(loaded))
		if err != nil {
			return err
		}
		return l.Close()
	})
}
