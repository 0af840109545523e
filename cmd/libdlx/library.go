//go:build cgo

package main

// #include <stdlib.h>
// #include "dlx.h"
import "C"

import (
	"encoding/json"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// version is set by the linker to the version of the source.
var version = ""

// versionText returns the version in memory of C, which is never freed.
var versionText = sync.OnceValue(func() *C.char {
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		version = info.Main.Version
	}
	return C.CString(version)
})

//export dlxgo_version
func dlxgo_version() *C.char { return versionText() }

//export dlxgo_live
func dlxgo_live(name *C.char, count *C.int64_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("count", unsafe.Pointer(count)); err != nil {
			return err
		}
		live := liveObjects()
		if name != nil {
			n, ok := live[C.GoString(name)]
			if !ok {
				return invalid("there is no counter %q: dlx_live_json lists them", C.GoString(name))
			}
			*count = C.int64_t(n)
			return nil
		}
		sum := int64(0)
		for _, n := range live {
			sum += n
		}
		*count = C.int64_t(sum)
		return nil
	})
}

//export dlxgo_live_json
func dlxgo_live_json(text **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error { return setJSON(text, liveObjects()) })
}

//export dlxgo_metrics_json
func dlxgo_metrics_json(text **C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error { return setJSON(text, core.ReadMetrics()) })
}

// liveObjects counts what is open, after what was deleted is gone.
func liveObjects() map[string]int64 {
	dlpack.Flush()
	return core.Live()
}

//export dlxgo_flush
func dlxgo_flush(e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		dlpack.Flush()
		return nil
	})
}

// text is a text in memory of C.
type text struct {
	data   *C.char
	length int
}

var texts = newHandles[text]("text")

// setText sets *out to a new text.
func setText(out **C.dlx_text, s string) error {
	if err := required("text", unsafe.Pointer(out)); err != nil {
		return err
	}
	texts.add(unsafe.Pointer(out), text{C.CString(s), len(s)})
	return nil
}

// setJSON sets *out to a new text with v as JSON.
func setJSON(out **C.dlx_text, v any) error {
	encoded, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return setText(out, string(encoded))
}

//export dlxgo_text_data
func dlxgo_text_data(handle *C.dlx_text, data **C.char, length *C.size_t, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("data", unsafe.Pointer(data)); err != nil {
			return err
		}
		t, err := texts.get(unsafe.Pointer(handle))
		if err != nil {
			return err
		}
		*data = t.data
		if length != nil {
			*length = C.size_t(t.length)
		}
		return nil
	})
}

//export dlxgo_text_close
func dlxgo_text_close(handle *C.dlx_text, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		t, err := texts.take(unsafe.Pointer(handle))
		if err == nil {
			C.free(unsafe.Pointer(t.data))
		}
		return err
	})
}
