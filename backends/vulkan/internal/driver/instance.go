//go:build vulkan && linux && cgo

package driver

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	vk "github.com/vulkan-go/vulkan"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

const (
	validationLayer = "VK_LAYER_KHRONOS_validation"
	debugUtils      = "VK_EXT_debug_utils"
)

// Instance is a VkInstance. The caller of NewInstance or WrapInstance closes it.
type Instance struct {
	handle    vk.Instance
	proc      C.PFN_vkGetInstanceProcAddr
	version   Version
	owned     bool
	messenger uint64 // 0 without validation
}

// Version is a version as Vulkan encodes it.
type Version uint32

// String returns text such as "1.3.239".
func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d", v>>22&0x7f, v>>12&0x3ff, v&0xfff)
}

// The versions that matter.
const (
	Version11 Version = 1<<22 | 1<<12
	Version12 Version = 1<<22 | 2<<12
)

// NewInstance makes an instance, with the Khronos validation layer if validation is set; see [Messages]. It
// fails with core.ErrNotSupported if there is no library, no driver or no such layer, and with
// core.ErrVersion below Vulkan 1.1.
func NewInstance(validation bool) (*Instance, error) {
	defer dl.KeepHandlers()()
	library.mu.Lock()
	defer library.mu.Unlock()
	proc, err := load()
	if err != nil {
		return nil, err
	}
	i := &Instance{proc: proc, owned: true}
	i.version = Version(C.dlx_instance_version(function[C.PFN_vkEnumerateInstanceVersion](i, "vkEnumerateInstanceVersion")))
	if i.version < Version11 {
		return nil, core.Errorf(core.ErrVersion, backend, "vkEnumerateInstanceVersion", "libvulkan has version %v, 1.1 is the oldest supported version: install a newer loader", i.version)
	}
	var layers, extensions []string
	if validation {
		if err := i.checkValidation(); err != nil {
			return nil, err
		}
		layers, extensions = []string{validationLayer}, []string{debugUtils}
	}
	if i.handle, err = prepare(func() (vk.Instance, error) { return create(min(i.version, Version12), layers, extensions) }); err != nil {
		return nil, err
	}
	if validation {
		newMessenger := function[C.PFN_vkCreateDebugUtilsMessengerEXT](i, "vkCreateDebugUtilsMessengerEXT")
		var m C.uint64_t
		if err := failed(C.dlx_messenger_new(newMessenger, C.uint64_t(i.Handle()), &m), "vkCreateDebugUtilsMessengerEXT", ""); err != nil {
			i.Close()
			return nil, err
		}
		i.messenger = uint64(m)
	}
	return i, nil
}

// create calls vkCreateInstance.
func create(version Version, layers, extensions []string) (vk.Instance, error) {
	info := newInfos()
	defer freeInfos(info)
	engine := C.CString("dlx")
	defer C.free(unsafe.Pointer(engine))
	info.application.sType = C.VK_STRUCTURE_TYPE_APPLICATION_INFO
	info.application.pEngineName = engine
	info.application.apiVersion = C.uint32_t(version)
	info.instance.sType = C.VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
	info.instance.pApplicationInfo = &info.application
	var free func()
	info.instance.ppEnabledLayerNames, info.instance.enabledLayerCount, free = cStrings(layers)
	defer free()
	info.instance.ppEnabledExtensionNames, info.instance.enabledExtensionCount, free = cStrings(extensions)
	defer free()
	if len(layers) > 0 { // reports on vkCreateInstance and vkDestroyInstance themselves
		C.dlx_messenger_info(&info.messenger)
		info.instance.pNext = unsafe.Pointer(&info.messenger)
	}
	var handle vk.Instance
	r := vk.CreateInstance(vk.NewInstanceCreateInfoRef(unsafe.Pointer(&info.instance)), nil, &handle)
	return handle, failed(C.VkResult(r), "vkCreateInstance", "is a driver installed? VK_DRIVER_FILES and VK_ICD_FILENAMES name its manifest")
}

// checkValidation says why the validation layer cannot be used.
func (i *Instance) checkValidation() error {
	get := function[C.PFN_vkEnumerateInstanceLayerProperties](i, "vkEnumerateInstanceLayerProperties")
	layers, err := list("vkEnumerateInstanceLayerProperties", func(n *C.uint32_t, names *C.dlx_name) C.VkResult {
		return C.dlx_layers(get, n, names)
	})
	if err != nil {
		return err
	}
	if !slices.Contains(layers, validationLayer) {
		return core.Errorf(core.ErrNotSupported, backend, "vkEnumerateInstanceLayerProperties", "there is no layer %s: install vulkan-validationlayers", validationLayer)
	}
	return nil
}

// WrapInstance takes an instance of another library, which destroys it.
func WrapInstance(handle uint64) (*Instance, error) {
	defer dl.KeepHandlers()()
	library.mu.Lock()
	defer library.mu.Unlock()
	proc, err := load()
	if err != nil {
		return nil, err
	}
	i := &Instance{proc: proc, version: Version11}
	i.handle, err = prepare(func() (vk.Instance, error) { return as[vk.Instance](handle), nil })
	return i, err
}

// Handle is the VkInstance.
func (i *Instance) Handle() uint64 { return number(i.handle) }

// Version is the newest version that the loader supports.
func (i *Instance) Version() Version { return i.version }

// Close destroys the instance if NewInstance made it. Its devices must be closed.
func (i *Instance) Close() {
	if !i.owned {
		return
	}
	defer dl.KeepHandlers()()
	if i.messenger != 0 {
		destroy := function[C.PFN_vkDestroyDebugUtilsMessengerEXT](i, "vkDestroyDebugUtilsMessengerEXT")
		C.dlx_messenger_free(destroy, C.uint64_t(i.Handle()), C.uint64_t(i.messenger))
	}
	vk.DestroyInstance(i.handle, nil)
}

// function asks for a function by name, as a pointer of the type F; nil if there is none.
func function[F any](i *Instance, name string) F {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	return as[F](number(C.dlx_proc(i.proc, C.uint64_t(i.Handle()), cname)))
}

// cStrings copies strings to C memory. They are freed by free.
func cStrings(s []string) (p **C.char, n C.uint32_t, free func()) {
	if len(s) == 0 {
		return nil, 0, func() {}
	}
	p = (**C.char)(C.calloc(C.size_t(len(s)), C.size_t(unsafe.Sizeof(uintptr(0)))))
	all := unsafe.Slice(p, len(s))
	for i := range s {
		all[i] = C.CString(s[i])
	}
	return p, C.uint32_t(len(s)), func() {
		for _, c := range all {
			C.free(unsafe.Pointer(c))
		}
		C.free(unsafe.Pointer(p))
	}
}

// list collects names that get enumerates.
func list(call string, get func(n *C.uint32_t, names *C.dlx_name) C.VkResult) ([]string, error) {
	names := make([]C.dlx_name, 64)
	for {
		n := C.uint32_t(len(names))
		if err := failed(get(&n, &names[0]), call, ""); err != nil {
			return nil, err
		}
		if int(n) > len(names) {
			names = make([]C.dlx_name, n)
			continue
		}
		found := make([]string, n)
		for i := range found {
			found[i] = C.GoString(&names[i][0])
		}
		return found, nil
	}
}

// Messages returns how many messages the validation layer has reported in this process, and the texts of
// those after the first ones, whose number is the argument. Only the newest texts are kept.
func Messages(first uint64) (count uint64, texts []string) {
	var text [C.DLX_MESSAGE_SIZE]C.char
	count = uint64(C.dlx_messages(0, &text[0]))
	for i := max(first, count-min(count, C.DLX_MESSAGES)); i < count; i++ {
		C.dlx_messages(C.uint64_t(i), &text[0])
		texts = append(texts, C.GoString(&text[0]))
	}
	return count, texts
}
