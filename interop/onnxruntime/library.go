//go:build cgo && unix

package onnxruntime

import (
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
	ort "github.com/yalue/onnxruntime_go"
)

const apiName = "onnxruntime" // the Backend of errors

var (
	liveValues   = live.NewCounter("onnxruntime.Value")
	liveBindings = live.NewCounter("onnxruntime.Binding")
)

// environment is onnxruntime_go's, of which a process has one.
var environment struct {
	mu    sync.Mutex
	users int  // open libraries
	ours  bool // the first of them made it
}

// Library is the library of ONNX Runtime that onnxruntime_go uses. It is safe for concurrent use.
type Library struct {
	table table

	mu     sync.Mutex
	closed bool
	open   int                                                 // values, bindings and tensors that need the library
	places map[core.DeviceID]unsafe.Pointer                    // the OrtMemoryInfo of each place that was used
	kinds  map[ort.TensorElementDataType]*ort.CustomDataTensor // see Value
}

// Open opens the library at path, and makes the environment of onnxruntime_go if the program has not done so. If it
// has, path is what it passed to SetSharedLibraryPath. An empty path stands for onnxruntime.so, as there. The caller
// closes the library.
//
// Open returns core.ErrVersion if the library is older than version 1.23, or another one than onnxruntime_go uses, and
// core.ErrNotSupported if it cannot be loaded.
func Open(path string) (*Library, error) {
	if path == "" {
		path = "onnxruntime.so"
	}
	if err := checkFields(); err != nil {
		return nil, err
	}
	environment.mu.Lock()
	defer environment.mu.Unlock()
	made := !ort.IsInitialized()
	if made {
		ort.SetSharedLibraryPath(path)
		if err := ort.InitializeEnvironment(); err != nil {
			return nil, &core.Error{Backend: apiName, Call: "InitializeEnvironment", Detail: err.Error(), Err: core.ErrNotSupported}
		}
	}
	t, err := openTable(path)
	if err != nil {
		if made {
			_ = ort.DestroyEnvironment() // err says more
		}
		return nil, err
	}
	environment.users++
	environment.ours = environment.ours || made
	return &Library{
		table:  t,
		places: make(map[core.DeviceID]unsafe.Pointer),
		kinds:  make(map[ort.TensorElementDataType]*ort.CustomDataTensor),
	}, nil
}

// Close closes the library. The last Close of a process also destroys the environment of onnxruntime_go, if Open has
// made it; destroy the sessions before. While values, bindings and tensors of the library are open, Close returns
// core.ErrInvalid and leaves the library open. Closing a closed library does nothing.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.places == nil { // a zero Library was never open
		return nil
	}
	if l.open > 0 {
		return core.Errorf(core.ErrInvalid, apiName, "Close", "%d values, bindings or tensors are open; close them first", l.open)
	}
	l.closed = true
	for _, info := range l.places {
		l.table.releaseMemoryInfo(info)
	}
	var err error
	for _, kind := range l.kinds {
		_ = kind.Destroy() // always nil
	}
	environment.mu.Lock()
	defer environment.mu.Unlock()
	if environment.users--; environment.users == 0 && environment.ours {
		environment.ours = false
		if destroyed := ort.DestroyEnvironment(); destroyed != nil {
			err = &core.Error{Backend: apiName, Call: "DestroyEnvironment", Detail: destroyed.Error(), Err: core.ErrInvalid}
		}
	}
	l.table.close()
	return err
}

// retain counts an object that needs the library, until release.
func (l *Library) retain() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.places == nil {
		return core.Errorf(core.ErrClosed, apiName, "Library", "the library was closed, or never opened")
	}
	l.open++
	return nil
}

func (l *Library) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// memoryInfo returns the OrtMemoryInfo of a place. The library owns it.
func (l *Library) memoryInfo(id core.DeviceID) (unsafe.Pointer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if info := l.places[id]; info != nil {
		return info, nil
	}
	name, err := placeName(id)
	if err != nil {
		return nil, err
	}
	info, err := l.table.memoryInfo(name, id.Index)
	if err != nil {
		return nil, err
	}
	l.places[id] = info
	return info, nil
}

// kind returns a value on the host with elements of a type. The library owns it.
func (l *Library) kind(dtype ort.TensorElementDataType) (*ort.CustomDataTensor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind := l.kinds[dtype]; kind != nil {
		return kind, nil
	}
	const largest = 16 // bytes of a complex128
	kind, err := ort.NewCustomDataTensor(ort.NewShape(1), make([]byte, largest), dtype)
	if err != nil {
		return nil, &core.Error{Backend: apiName, Call: "NewCustomDataTensor", Detail: err.Error(), Err: core.ErrInvalid}
	}
	l.kinds[dtype] = kind
	return kind, nil
}
