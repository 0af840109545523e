//go:build cuda && vulkan && linux && cgo

package main

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "raw.h"
import "C"

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

const noExperiments = "there is no such experiment: -list prints them"

// failure returns the error of a call of CUDA's or Vulkan's, or nil. It must be called on the thread of the call.
func failure(text *C.char, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s (%d)", callName(C.GoString(C.fs_failed())), C.GoString(text), int(code))
}

var calls = regexp.MustCompile(`^(?:cu\.|vk\.|FS_IF\()(\w+)`)

// callName is the function that an expression of C calls.
func callName(expression string) string {
	m := calls.FindStringSubmatch(expression)
	switch {
	case m == nil:
		return expression
	case strings.HasPrefix(expression, "vk."):
		return "vk" + m[1]
	}
	return m[1]
}

func cudaError(code C.int) error { return failure(C.fs_cuda_code(code), code) }
func vkError(code C.int) error   { return failure(C.fs_vk_code(code), code) }

func cudaCode(code C.int) string {
	if code == 0 {
		return "CUDA_SUCCESS"
	}
	return C.GoString(C.fs_cuda_code(code))
}

func vkCode(code C.int) string {
	if code == 0 {
		return "VK_SUCCESS"
	}
	return fmt.Sprintf("%s (%d)", C.GoString(C.fs_vk_code(code)), int(code))
}

// card is CUDA's device 0, whose context is current on the thread that opened it.
type card struct {
	name          string
	uuid          [16]C.uint8_t
	version       int
	total, unused uint64
	simulated     bool
}

// openCUDA opens the driver. Its error is a skip if there is no card.
func (r *reporter) openCUDA() (*card, error) {
	library := C.CString(cmp.Or(os.Getenv("DLX_CUDA_LIBRARY"), "libcuda.so.1"))
	runtime.LockOSThread() // the context is current on this thread only, for the rest of the experiment
	defer C.free(unsafe.Pointer(library))
	if why := C.fs_cuda_load(library); why != nil {
		return nil, skip("CUDA: " + C.GoString(why))
	}
	if err := cudaError(C.fs_cuda_open()); err != nil {
		return nil, skip("CUDA has no device: " + err.Error())
	}
	c := new(card)
	var name [256]C.char
	var version C.int
	var total, unused C.uint64_t
	if err := cudaError(C.fs_cuda_describe(&name[0], &c.uuid[0], &version, &total, &unused)); err != nil {
		return nil, err
	}
	c.name, c.version, c.total, c.unused = C.GoString(&name[0]), int(version), uint64(total), uint64(unused)
	c.simulated = strings.Contains(c.name, "simulated")
	r.drives("cuda", c.name, c.simulated)
	return c, nil
}

// tryCUDA is openCUDA for an experiment that goes on without CUDA. c is nil then, and missing is the reason.
func (r *reporter) tryCUDA() (c *card, missing string) {
	c, err := r.openCUDA()
	if err != nil {
		return nil, err.Error()
	}
	return c, ""
}

// vulkanIsOpen says that this process has opened Vulkan.
var vulkanIsOpen bool

// openVulkan opens the Vulkan device of a card, or the first device if c is nil. Its error is a skip if there is none.
func (r *reporter) openVulkan(c *card) error {
	library := C.CString(cmp.Or(os.Getenv("DLX_VULKAN_LIBRARY"), "libvulkan.so.1"))
	defer C.free(unsafe.Pointer(library))
	var uuid *C.uint8_t
	if c != nil {
		uuid = &c.uuid[0]
	}
	if vulkanIsOpen {
		return nil
	}
	if why := C.fs_vk_open(library, uuid); why != nil {
		return skip("Vulkan: " + C.GoString(why))
	}
	vulkanIsOpen = true
	var name [256]C.char
	var id [16]C.uint8_t
	var kind, api, driver C.uint32_t
	C.fs_vk_describe(&name[0], &id[0], &kind, &api, &driver)
	r.drives("vulkan", C.GoString(&name[0]), kind == vulkanCPU)
	return nil
}

const vulkanCPU = 4 // VK_PHYSICAL_DEVICE_TYPE_CPU

// timeline is a semaphore that Vulkan, or the simulator in its place, exports and signals.
type timeline struct {
	fd           int                      // the caller's
	semaphore    C.uint64_t               // Vulkan's; 0 for the simulator's
	signal, wait func(value uint64) error // of the host; a wait fails after limitNS
	value        func() (uint64, error)
}

// timelines prepares newTimeline. Vulkan need not be open before.
func (r *reporter) timelines(c *card) (func() (timeline, error), error) {
	if c.simulated {
		if sim, err := gpusim.Open(); err == nil {
			return func() (timeline, error) {
				t, err := sim.NewTimeline()
				if err != nil {
					return timeline{}, err
				}
				fd, err := unix.Dup(t.FD) // signals use the other one
				wait := func(value uint64) error { return t.Wait(value, limitNS) }
				return timeline{fd: fd, signal: t.Signal, wait: wait, value: t.Value}, err
			}, nil
		}
	}
	if err := r.openVulkan(c); err != nil {
		return nil, err
	}
	if C.fs_vk_timelines_export() == 0 {
		return nil, skip("the Vulkan device does not export timeline semaphores")
	}
	return func() (timeline, error) {
		var semaphore C.uint64_t
		var fd C.int
		if err := vkError(C.fs_vk_semaphore(1, &semaphore, &fd)); err != nil {
			return timeline{}, err
		}
		return timeline{
			fd:        int(fd),
			semaphore: semaphore,
			signal:    func(value uint64) error { return vkError(C.fs_vk_signal(semaphore, C.uint64_t(value))) },
			wait:      func(value uint64) error { return waitFor(semaphore)(C.uint64_t(value)) },
			value: func() (uint64, error) {
				var v C.uint64_t
				err := vkError(C.fs_vk_counter(semaphore, &v))
				return uint64(v), err
			},
		}, nil
	}, nil
}

// examineDevices reports what the drivers say of themselves.
func examineDevices(r *reporter) error {
	c, missing := r.tryCUDA()
	if c == nil {
		r.row(row{"api": "cuda", "missing": missing})
	} else {
		r.row(row{"api": "cuda", "device": c.name, "uuid": hex.EncodeToString(bytesOf(c.uuid[:])), "version": c.version,
			"total_bytes": c.total, "unused_bytes": c.unused, "simulated": c.simulated})
	}
	noVulkan := r.openVulkan(c)
	if noVulkan != nil {
		r.row(row{"api": "vulkan", "missing": noVulkan.Error()})
	} else {
		var name [256]C.char
		var id [16]C.uint8_t
		var kind, api, driver C.uint32_t
		C.fs_vk_describe(&name[0], &id[0], &kind, &api, &driver)
		r.row(row{"api": "vulkan", "device": C.GoString(&name[0]), "uuid": hex.EncodeToString(bytesOf(id[:])), "type": int(kind),
			"version": fmt.Sprintf("%d.%d.%d", api>>22&0x7f, api>>12&0x3ff, api&0xfff), "driver_version": uint32(driver),
			"exports_timelines": C.fs_vk_timelines_export() != 0, "host_import_alignment": uint64(C.fs_vk_host_alignment())})
	}
	if c == nil && noVulkan != nil {
		return skip(missing + "; " + noVulkan.Error())
	}
	return nil
}

func bytesOf(x []C.uint8_t) []byte {
	b := make([]byte, len(x))
	for i, v := range x {
		b[i] = byte(v)
	}
	return b
}

// experiments lists all in the order in which they run: first those on which most depends.
func experiments() []experiment {
	const short = 30 * time.Second
	all := []experiment{{"devices", "what the drivers say of themselves", short, examineDevices}}
	all = append(all, blockingExperiments("semaphore")...)
	all = append(all, hostImportExperiments()...)
	all = append(all, experiment{"pointers", "what the driver says of addresses of each kind of memory, and whether dlx imports them", short, examinePointers})
	all = append(all, sharingExperiments()...)
	all = append(all, latencyExperiment, familiesExperiment)
	all = append(all, copyExperiments()...)
	return append(all, blockingExperiments("word")...)
}
