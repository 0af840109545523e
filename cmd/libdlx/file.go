//go:build cgo

package main

// #include "dlx.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

var files = newHandles[*openFile]("file")

// openFile is an open file, and the path that it was opened with.
type openFile struct {
	*tensorfile.File
	path string
}

//export dlxgo_file_open
func dlxgo_file_open(path *C.char, file **C.dlx_file, e *C.dlx_error) C.dlx_status {
	return dlxgo_file_open_with(path, nil, file, e)
}

//export dlxgo_file_open_with
func dlxgo_file_open_with(path *C.char, o *C.dlx_open_options, file **C.dlx_file, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("file", unsafe.Pointer(file)); err != nil {
			return err
		}
		if err := required("path", unsafe.Pointer(path)); err != nil {
			return err
		}
		var voids []core.DType
		if o != nil {
			err := unset(o.reserved[:]...)
			if err == nil {
				voids, err = voidTypes(o.void_as, o.void_count)
			}
			if err != nil {
				return err
			}
		}
		f, err := tensorfile.Open(C.GoString(path), tensorfile.OpenOptions{VoidAs: voids})
		if err == nil {
			files.add(unsafe.Pointer(file), &openFile{f, C.GoString(path)})
		}
		return err
	})
}

// voidTypes returns the types of an array of C, those of elements of raw void.
func voidTypes(list *C.dlx_dtype, count C.size_t) (types []core.DType, err error) {
	if list == nil && count > 0 {
		return nil, invalid("void_as is NULL, and void_count is %d", count)
	}
	for i := range uintptr(count) {
		types = append(types, dtype(*(*C.dlx_dtype)(unsafe.Add(unsafe.Pointer(list), i*unsafe.Sizeof(*list)))))
	}
	return types, nil
}

//export dlxgo_file_close
func dlxgo_file_close(file *C.dlx_file, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		f, err := files.take(unsafe.Pointer(file))
		if err != nil {
			return err
		}
		return f.Close()
	})
}

//export dlxgo_file_json
func dlxgo_file_json(file *C.dlx_file, out **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		f, err := files.get(unsafe.Pointer(file))
		if err != nil {
			return err
		}
		return setJSON(out, struct {
			Path     string            `json:"path"`
			Format   tensorfile.Format `json:"format"`
			Metadata map[string]string `json:"metadata,omitempty"`
			Tensors  []tensorfile.Info `json:"tensors"`
		}{f.path, f.Format(), f.Metadata(), f.Tensors()})
	})
}

//export dlxgo_file_tensor
func dlxgo_file_tensor(file *C.dlx_file, name *C.char, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("tensor", unsafe.Pointer(tensor)); err != nil {
			return err
		}
		f, err := files.get(unsafe.Pointer(file))
		if err != nil {
			return err
		}
		var wanted string
		if name != nil {
			wanted = C.GoString(name)
		} else {
			all := f.Tensors()
			if len(all) != 1 {
				return invalid("name is NULL, but the file has %d tensors", len(all))
			}
			wanted = all[0].Name
		}
		t, err := f.Tensor(wanted)
		return setTensor(tensor, t, err)
	})
}

//export dlxgo_file_save
func dlxgo_file_save(path *C.char, list **C.dlx_tensor, names **C.char, count C.size_t, compress C.int32_t, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		var options tensorfile.WriteOptions
		switch compress {
		case 0:
		case 1:
			options.Compress = true
		default:
			return invalid("compress is %d, and neither 0 nor 1", compress)
		}
		return save(path, list, names, count, timeout, options)
	})
}

//export dlxgo_file_save_metadata
func dlxgo_file_save_metadata(path *C.char, list **C.dlx_tensor, names **C.char, count C.size_t, keys, values **C.char, pairs C.size_t, timeout C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		metadata := make(map[string]string)
		for i := range uintptr(pairs) {
			key, err := textAt("keys", keys, i)
			if err != nil {
				return err
			}
			value, err := textAt("values", values, i)
			if err != nil {
				return err
			}
			if _, twice := metadata[key]; twice {
				return invalid("keys[%d] is %q, which is there before", i, key)
			}
			metadata[key] = value
		}
		return save(path, list, names, count, timeout, tensorfile.WriteOptions{Metadata: metadata})
	})
}

// save writes the tensors of two arrays of C to a file.
func save(path *C.char, list **C.dlx_tensor, names **C.char, count C.size_t, timeout C.int64_t, options tensorfile.WriteOptions) error {
	if err := required("path", unsafe.Pointer(path)); err != nil {
		return err
	}
	if list == nil && count > 0 {
		return invalid("tensors is NULL, and count is %d", count)
	}
	named := make([]tensorfile.Named, 0, min(count, 1024))
	for i := range uintptr(count) {
		n, err := namedTensor(list, names, i)
		if err != nil {
			return err
		}
		named = append(named, n)
	}
	return within(timeout, func(ctx context.Context) error {
		return tensorfile.WriteFile(ctx, C.GoString(path), named, options)
	})
}

// textAt returns text i of an array of C.
func textAt(name string, texts **C.char, i uintptr) (string, error) {
	if texts == nil {
		return "", invalid("%s is NULL", name)
	}
	text := *(**C.char)(unsafe.Add(unsafe.Pointer(texts), i*unsafe.Sizeof(texts)))
	if text == nil {
		return "", invalid("%s[%d] is NULL", name, i)
	}
	return C.GoString(text), nil
}

// namedTensor returns element i of the arrays of C.
func namedTensor(list **C.dlx_tensor, names **C.char, i uintptr) (tensorfile.Named, error) {
	at := i * unsafe.Sizeof(list)
	t, err := tensors.get(*(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(list), at)))
	if err != nil {
		return tensorfile.Named{}, &core.Error{Backend: origin, Detail: fmt.Sprintf("tensors[%d]", i), Err: err}
	}
	n := tensorfile.Named{Tensor: t}
	if names != nil {
		n.Name, err = textAt("names", names, i)
	}
	return n, err
}
