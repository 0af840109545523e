//go:build vulkan && linux && cgo

package driver

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"os"
	"sync"
	"unsafe"

	vk "github.com/vulkan-go/vulkan"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// LibraryVariable names an environment variable, whose value is opened instead of the system's libvulkan.
const LibraryVariable = "DLX_VULKAN_LIBRARY"

// library is the process's libvulkan. It is never closed: drivers keep threads.
var library struct {
	mu    sync.Mutex
	proc  uintptr // vkGetInstanceProcAddr, 0 until it was found
	ready bool    // vulkan-go's functions are set
}

// UseLoader makes the function at proc vkGetInstanceProcAddr, instead of the one of an opened library. It
// must be called before everything else. Tests use it to make calls fail.
func UseLoader(proc uintptr) {
	library.mu.Lock()
	defer library.mu.Unlock()
	library.proc = proc
}

// KeepVulkanGo says that the program has initialised vulkan-go itself. vulkan-go's function variables are
// then left as they are.
func KeepVulkanGo() {
	library.mu.Lock()
	defer library.mu.Unlock()
	library.ready = true
}

// SystemLoader opens libvulkan and returns its vkGetInstanceProcAddr.
func SystemLoader() (uintptr, error) {
	names := []string{"libvulkan.so.1", "libvulkan.so"}
	if name := os.Getenv(LibraryVariable); name != "" {
		names = []string{name}
	}
	l, err := dl.Open(backend, names...)
	if err != nil {
		return 0, err
	}
	var proc uintptr
	if err := l.Resolve([]dl.Symbol{{Name: "vkGetInstanceProcAddr", Since: "1.0", Address: &proc}}); err != nil {
		_ = l.Close()
		return 0, err
	}
	return proc, nil
}

// load finds vkGetInstanceProcAddr. After a failure the next call tries again.
// library.mu is held.
func load() (C.PFN_vkGetInstanceProcAddr, error) {
	if library.proc == 0 {
		proc, err := SystemLoader()
		if err != nil {
			return nil, err
		}
		library.proc = proc
	}
	return as[C.PFN_vkGetInstanceProcAddr](uint64(library.proc)), nil
}

// prepare gives vulkan-go the same library, once in the life of the process: its
// functions are variables of that package, which others may be calling. first is called
// in between and makes the first instance, which most functions are asked for with.
// library.mu is held.
func prepare(first func() (vk.Instance, error)) (vk.Instance, error) {
	if library.ready {
		return first()
	}
	refused := func(err error) error {
		return core.Errorf(core.ErrNotSupported, backend, "vkGetInstanceProcAddr", "%v", err)
	}
	vk.SetGetInstanceProcAddr(as[unsafe.Pointer](uint64(library.proc)))
	if err := vk.Init(); err != nil {
		return nil, refused(err)
	}
	instance, err := first()
	if err != nil {
		return nil, err
	}
	if err := vk.InitInstance(instance); err != nil {
		return nil, refused(err)
	}
	library.ready = true
	return instance, nil
}

// GetInstanceProcAddr is the address of the library's function, 0 if none was opened.
func GetInstanceProcAddr() uintptr {
	library.mu.Lock()
	defer library.mu.Unlock()
	return library.proc
}

// as makes a handle or function pointer of a number, number the reverse. Both
// have 64 bits on the platforms that this package is built for.
func as[T any](n uint64) T { return *(*T)(unsafe.Pointer(&n)) }

func number[T any](h T) uint64 { return *(*uint64)(unsafe.Pointer(&h)) }

// Pointers have 64 bits: else this does not compile.
const _ = uint(unsafe.Sizeof(uintptr(0)) - 8)

// newInfos allocates C memory for structs, to be freed by freeInfos.
func newInfos() *C.dlx_infos { return (*C.dlx_infos)(C.calloc(1, C.sizeof_dlx_infos)) }

func freeInfos(i *C.dlx_infos) { C.free(unsafe.Pointer(i)) }
