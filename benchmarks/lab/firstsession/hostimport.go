//go:build cuda && vulkan && linux && cgo

package main

// #include <stdlib.h>
// #include "raw.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// hostMemories are the kinds of memory whose import is tried. For those of C.fs_memory_new there is no other name.
var hostMemories = []string{
	"anonymous", "malloc", "huge_pages", "transparent_huge_pages", "memfd", "file_shared", "file_private", "file_read_only",
	"vulkan_mapped", "vulkan_mapped_device_local", "cuda_host", "cuda_registered", "cuda_managed",
}

func hostImportExperiments() []experiment {
	var all []experiment
	for _, kind := range hostMemories {
		all = append(all, experiment{
			name:  "host_import/" + kind,
			about: "whether Vulkan imports the memory, twice and by both handle types, and CUDA registers it",
			limit: 30 * time.Second,
			do:    func(r *reporter) error { return examineHostImport(r, kind) },
		})
	}
	return all
}

// hostMemory makes memory of a kind with the pattern of fs_memory_fill.
func (r *reporter) hostMemory(kind string, size C.uint64_t) (p unsafe.Pointer, writable bool, err error) {
	switch kind {
	case "vulkan_mapped", "vulkan_mapped_device_local":
		err = vkError(C.fs_vk_mapped(size, toInt(kind == "vulkan_mapped_device_local"), &p))
	case "cuda_host":
		err = cudaError(C.fs_cuda_host_alloc(size, &p))
	case "cuda_managed":
		var address C.uint64_t
		err = cudaError(C.fs_cuda_managed(size, &address))
		*(*C.uint64_t)(unsafe.Pointer(&p)) = address
	default:
		name := kind
		if kind == "cuda_registered" {
			name = "anonymous"
		}
		cname, folder := C.CString(name), C.CString(os.TempDir())
		defer C.free(unsafe.Pointer(cname))
		defer C.free(unsafe.Pointer(folder))
		var canWrite C.int
		if why := C.fs_memory_new(cname, size, folder, &p, &canWrite); why != nil {
			return nil, false, skip(kind + ": " + C.GoString(why))
		}
		if kind == "cuda_registered" {
			err = cudaError(C.fs_cuda_register(p, size, 0))
		}
		return p, canWrite != 0, err
	}
	if err != nil {
		return nil, false, skip(kind + ": " + err.Error())
	}
	C.fs_memory_fill(p, size)
	return p, true, nil
}

func examineHostImport(r *reporter, kind string) error {
	runtime.LockOSThread()
	c, missing := r.tryCUDA()
	if strings.HasPrefix(kind, "cuda") && c == nil {
		return skip(missing)
	}
	if err := r.openVulkan(c); err != nil {
		return err
	}
	alignment := uint64(C.fs_vk_host_alignment())
	if alignment == 0 {
		return skip("the Vulkan device has no VK_EXT_external_memory_host")
	}
	const size = 2 << 20 // a huge page
	p, writable, err := r.hostMemory(kind, size)
	if err != nil {
		return err
	}
	imported := false
	for _, foreign := range []bool{false, true} {
		name := "HOST_ALLOCATION"
		if foreign {
			name = "HOST_MAPPED_FOREIGN_MEMORY"
		}
		for _, when := range []string{"first", "second, while the first is open"} {
			var out C.fs_import
			C.fs_vk_host_import(p, size, toInt(foreign), toInt(writable), &out)
			imported = imported || out.bound == 0
			found := row{"handle_type": name, "import": when, "properties": vkCode(out.properties), "memory_types": fmt.Sprintf("%#x", uint32(out.bits))}
			for _, step := range []struct {
				name string
				code C.int
			}{{"vkCreateBuffer", out.created}, {"vkAllocateMemory", out.allocated}, {"vkBindBufferMemory", out.bound}} {
				if step.code != notTried {
					found[step.name] = vkCode(step.code)
				}
			}
			for _, access := range []struct {
				name string
				was  C.int
			}{{"device_reads", out.read}, {"device_writes", out.written}} {
				if access.was >= 0 {
					found[access.name] = access.was == 1
				}
			}
			r.row(found)
		}
	}
	if c == nil {
		r.row(row{"cuMemHostRegister": "not tried: " + missing})
		return nil
	}
	for _, flags := range []C.uint{0, readOnly} {
		code := C.fs_cuda_register(p, size, flags)
		// Memory that CUDA has already is not refused because Vulkan imported it.
		found := row{"cuMemHostRegister": cudaCode(code), "flags": uint(flags), "imported_by_vulkan": imported,
			"known_to_cuda_before": strings.HasPrefix(kind, "cuda")}
		if code == 0 {
			found["cuMemHostUnregister"] = cudaCode(C.fs_cuda_unregister(p))
		}
		r.row(found)
	}
	return nil
}

const (
	notTried = -1000000
	readOnly = 8 // CU_MEMHOSTREGISTER_READ_ONLY
)
