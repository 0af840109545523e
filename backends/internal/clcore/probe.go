//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// location is a device of a platform, and what was found out about it.
type location struct {
	API
	platform driver.Platform
	handle   driver.Device

	// dispatch is the first word of every object of the platform; 0 if it is unknown.
	dispatch uintptr

	properties core.Properties
	maxAlloc   int64 // bytes of the largest cl_mem
	baseAlign  int64 // the alignment of sub-buffers, in bytes

	cpu         bool           // the device is the host's processor
	unified     bool           // host and device share one memory
	fineGrained bool           // there is SVM, or for OneAPI USM, that both use without map and unmap
	usm         *driver.USM    // for OneAPI only
	visible     driver.USMKind // the kind of USM that host and device use at once; 0 if there is none
	clockStep   time.Duration
	importTypes []core.HandleType
	acquire     uintptr // clEnqueueAcquireExternalMemObjectsKHR, where importTypes has any
	release     uintptr
}

// list returns every device of every platform that the backend serves, in the order of the loader and of each
// driver: device opencl:n is element n.
func list(a API) ([]location, error) {
	if err := driver.Load(); err != nil {
		return nil, err
	}
	platforms, s := driver.Platforms()
	if s != driver.Success {
		return nil, a.check(s, "clGetPlatformIDs", "no OpenCL driver: install one, such as pocl-opencl-icd, and see OCL_ICD_VENDORS")
	}
	var all []location
	var names []string
	for _, p := range platforms {
		names = append(names, driver.Text(p, driver.PlatformName))
		if driver.Text(p, driver.PlatformName) == pocl {
			if err := poclRoom.Check(string(a), "clGetDeviceIDs"); err != nil {
				return nil, err
			}
			if err := poclSysfs(a, sysfs); err != nil {
				return nil, err
			}
		}
		devices, s := driver.Devices(p)
		if s != driver.Success && s != driver.DeviceNotFound {
			return nil, a.check(s, "clGetDeviceIDs", "the devices of platform %s", driver.Text(p, driver.PlatformName))
		}
		for _, d := range devices {
			if l := examine(a, p, d, int32(len(all))); a != OneAPI || l.usm != nil {
				all = append(all, l)
			}
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case a == OneAPI:
		return nil, a.errorf(core.ErrNotSupported, "clGetDeviceInfo", "no device on the platforms that were found (%s) has %s: install the driver of such a device, such as Intel's OpenCL runtime", strings.Join(names, ", "), driver.USMExtension)
	default:
		return nil, a.errorf(core.ErrNotSupported, "clGetDeviceIDs", "no device on the platforms that were found (%s): install the driver of a device; PoCL has none without a folder for its cache, which HOME or POCL_CACHE_DIR names", strings.Join(names, ", "))
	}
}

const pocl = "Portable Computing Language"

// poclRoom is what clGetDeviceIDs of PoCL needs. It ends the process if it cannot start a thread for each
// processor.
var poclRoom = dl.Room{Bytes: 8 << 20}

// sysfs is where Linux describes the processors. Tests replace it.
var sysfs = "/sys"

// poclSysfs returns an error if the processors are not described in the folder sysfs. hwloc, from which PoCL has the
// memory of the machine, then reports none, and clGetDeviceIDs ends the process.
func poclSysfs(a API, sysfs string) error {
	for _, folder := range []string{"bus/cpu/devices", "devices/system/cpu"} {
		if _, err := os.Stat(filepath.Join(sysfs, folder)); err == nil {
			return nil
		}
	}
	return a.errorf(core.ErrNotSupported, "clGetDeviceIDs", "the driver is PoCL, which would end this process: /sys, where it reads about the processors, is not mounted: mount it, for a container with --volume /sys:/sys:ro")
}

// examine queries everything that matters of a device. A property that it does not report counts as missing.
func examine(a API, p driver.Platform, d driver.Device, index int32) location {
	number := func(param driver.Param) int64 {
		n, s := driver.Number(d, param)
		if s != driver.Success {
			return 0
		}
		return int64(n)
	}
	l := location{API: a, platform: p, handle: d, maxAlloc: number(driver.DeviceMaxAlloc), baseAlign: max(number(driver.DeviceBaseAlign)/8, 1)}
	if slices.Contains(strings.Fields(driver.Text(p, driver.PlatformExtensions)), "cl_khr_icd") {
		l.dispatch, _ = peek(uintptr(d)) // it stays 0 if the system forbids reading it
	}
	extensions := strings.Fields(driver.Text(d, driver.DeviceExtensions))
	l.properties = core.Properties{
		ID:           core.DeviceID{Type: a.deviceType(), Index: index},
		Name:         driver.Text(d, driver.DeviceName),
		Driver:       driver.Text(p, driver.PlatformName) + " " + driver.Text(d, driver.DeviceDriver),
		TotalMemory:  number(driver.DeviceMemory),
		ComputeUnits: int(number(driver.DeviceUnits)),
		Alignment:    max(l.baseAlign, leastAlignment),
	}
	l.cpu = number(driver.DeviceType)&driver.TypeCPU != 0
	l.unified = number(driver.DeviceUnifiedMemory) != 0
	l.fineGrained = driver.HasSVM() && number(driver.DeviceSVM)&driver.SVMFineGrainBuffer != 0
	l.clockStep = time.Duration(number(driver.DeviceClockStep))
	if a == OneAPI {
		l.findUSM(extensions)
	}
	l.survey(extensions, number(driver.DeviceSVM))
	return l
}

// leastAlignment is the alignment of the first element that dlpack.h requires.
const leastAlignment = 256

// survey fills in what depends on extensions and kinds of memory, with the reason for each feature that is
// missing.
func (l *location) survey(extensions []string, svm int64) {
	p := &l.properties
	p.Capabilities = core.CapAsync | core.CapStreamWait | core.CapImportPointer |
		core.CapSemaphores | core.CapPool | core.CapImportStream | core.CapBatchCopy | core.CapConvert
	has := func(extension string) bool { return slices.Contains(extensions, extension) }
	if l.API == OneAPI {
		l.surveyUSM()
	} else {
		l.surveySVM(has, svm)
	}
	p.AddFeature("device_clock", core.CapDeviceClock, l.clockStep > 0, "CL_DEVICE_PROFILING_TIMER_RESOLUTION is not reported")
	if l.hostReaches() {
		p.Capabilities |= core.CapSubByte
	}

	if has("cl_khr_device_uuid") {
		device, _ := driver.Bytes(l.handle, driver.DeviceUUID)
		copy(p.UUID[:], device)
		loaded, _ := driver.Bytes(l.handle, driver.DriverUUID)
		copy(p.DriverUUID[:], loaded)
	}
	p.AddFeature("device_uuid", 0, has("cl_khr_device_uuid"), noExtension, "cl_khr_device_uuid")
	if bus, s := driver.Bytes(l.handle, driver.DevicePCI); has("cl_khr_pci_bus_info") && s == driver.Success && len(bus) == 16 {
		word := func(i int) uint32 { return binary.NativeEndian.Uint32(bus[4*i:]) }
		p.PCI = fmt.Sprintf("%04x:%02x:%02x.%x", word(0), word(1), word(2), word(3))
	}
	p.AddFeature("pci_bus_info", 0, p.PCI != "", noExtension, "cl_khr_pci_bus_info")
	if l.API == OpenCL {
		l.surveySharing(has)
	}
	if has("cl_khr_external_semaphore") {
		p.AddFeature("external_semaphore", 0, false, "cl_khr_semaphore has binary semaphores only, and core.Semaphore is a timeline")
	} else {
		p.AddFeature("external_semaphore", 0, false, noExtension, "cl_khr_external_semaphore")
	}
}

const noExtension = "the driver does not have %s"

// surveySVM adds the features of a cl_mem that depend on kinds of memory.
func (l *location) surveySVM(has func(string) bool, svm int64) {
	p := &l.properties
	p.AddFeature("svm_coarse_grain", 0, svm&driver.SVMCoarseBuffer != 0, "CL_DEVICE_SVM_CAPABILITIES is without it")
	p.AddFeature("svm_fine_grain", 0, l.fineGrained, "CL_DEVICE_SVM_CAPABILITIES is without CL_DEVICE_SVM_FINE_GRAIN_BUFFER")
	p.AddFeature("svm_system", 0, svm&driver.SVMFineGrainSystem != 0, "CL_DEVICE_SVM_CAPABILITIES is without CL_DEVICE_SVM_FINE_GRAIN_SYSTEM")
	if has(driver.USMExtension) {
		p.AddFeature("usm", 0, false, "a tensor of OpenCL is a cl_mem: the backend oneapi serves unified shared memory of this device")
	} else {
		p.AddFeature("usm", 0, false, noExtension, driver.USMExtension)
	}
	p.AddFeature("map_host", core.CapMapHost, l.unified, "CL_DEVICE_HOST_UNIFIED_MEMORY is false: the driver would copy host memory for a cl_mem over it")
	p.AddFeature("host_view", core.CapHostView, l.hostVisible(), "neither fine-grained SVM nor unified memory: the host cannot use device memory in place")
}

// surveySharing adds the features of sharing memory by descriptors.
func (l *location) surveySharing(has func(string) bool) {
	p := &l.properties
	p.AddFeature("export_opaque_fd", core.CapExportMemory, false, "OpenCL has no call that exports memory, whoever made the cl_mem: allocate with Vulkan or CUDA, and import it into OpenCL")
	l.findImports(has("cl_khr_external_memory"))
	for _, t := range [...]core.HandleType{core.HandleOpaqueFD, core.HandleDMABuf} {
		p.AddFeature("import_"+t.String(), core.CapImportMemory, slices.Contains(l.importTypes, t), noExtension, "cl_khr_external_memory_"+t.String())
	}
}

// findImports fills in which descriptors of memory can be imported, and by which calls.
func (l *location) findImports(offered bool) {
	if !offered || !driver.HasProperties() {
		return
	}
	l.acquire = driver.Extension(l.platform, "clEnqueueAcquireExternalMemObjectsKHR")
	l.release = driver.Extension(l.platform, "clEnqueueReleaseExternalMemObjectsKHR")
	types, s := driver.Bytes(l.handle, driver.DeviceImportTypes)
	if s != driver.Success || l.acquire == 0 || l.release == 0 {
		return
	}
	for ; len(types) >= 4; types = types[4:] {
		switch binary.NativeEndian.Uint32(types) {
		case driver.ImportOpaqueFD:
			l.importTypes = append(l.importTypes, core.HandleOpaqueFD)
		case driver.ImportDMABuf:
			l.importTypes = append(l.importTypes, core.HandleDMABuf)
		}
	}
}

// hostVisible reports whether the device can allocate memory that the host uses in place.
func (l *location) hostVisible() bool { return l.fineGrained || l.unified && l.API == OpenCL }

// hostReaches reports whether the host can use plain memory in place, since that costs nothing.
func (l *location) hostReaches() bool { return l.fineGrained && l.unified }
