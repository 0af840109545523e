//go:build gl && linux && cgo

package gl

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
	"github.com/dlx-go/dlx/backends/gl/internal/ext"
	_ "github.com/dlx-go/dlx/backends/gl/internal/link" // so that go-gl does not make the program need libGL
	"github.com/dlx-go/dlx/core"
)

// loadFunctions finds the functions of OpenGL, once for all contexts, which libEGL
// allows.
var loadFunctions = sync.OnceValue(func() error {
	if err := gl.InitWithProcAddrFunc(egl.ProcAddress); err != nil {
		return core.Errorf(core.ErrVersion, "gl", "eglGetProcAddress", "libEGL cannot find %v", err)
	}
	return nil
})

// contextInfo has the queried properties of an OpenGL context.
type contextInfo struct {
	renderer   string
	driver     string
	software   bool // renders on the processor: GPU memory is host memory
	extensions map[string]bool
	robust     bool // the context reports when it is lost

	deviceUUID, driverUUID core.UUID // zero without GL_EXT_memory_object

	blockSize  int64     // bytes of a buffer that a shader can reach at once
	blockAlign int64     // of where these begin
	groups     [3]uint32 // of a shader, the most along each axis
}

// readContextInfo queries the context that is current on the calling thread. It fails with core.ErrVersion if the
// context is older than OpenGL 4.5 or is OpenGL ES.
func readContextInfo() (contextInfo, error) {
	if err := loadFunctions(); err != nil {
		return contextInfo{}, err
	}
	version := gl.GoStr(gl.GetString(gl.VERSION))
	var major, minor, count, strategy, size, align int32
	gl.GetIntegerv(gl.MAJOR_VERSION, &major)
	gl.GetIntegerv(gl.MINOR_VERSION, &minor)
	if strings.HasPrefix(version, "OpenGL ES") || major < 4 || major == 4 && minor < 5 {
		return contextInfo{}, core.Errorf(core.ErrVersion, "gl", "glGetString", "the context is %q; OpenGL 4.5 is needed", version)
	}
	gl.GetIntegerv(gl.NUM_EXTENSIONS, &count)
	gl.GetIntegerv(gl.RESET_NOTIFICATION_STRATEGY, &strategy)
	gl.GetIntegerv(gl.MAX_SHADER_STORAGE_BLOCK_SIZE, &size)
	gl.GetIntegerv(gl.SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT, &align)
	f := contextInfo{
		renderer:   gl.GoStr(gl.GetString(gl.RENDERER)),
		driver:     fmt.Sprintf("%s, OpenGL %s", gl.GoStr(gl.GetString(gl.VENDOR)), version),
		extensions: make(map[string]bool, count),
		robust:     strategy == gl.LOSE_CONTEXT_ON_RESET,
		blockSize:  int64(size),
		blockAlign: int64(max(align, 4)),
	}
	for i := range f.groups {
		var n int32
		gl.GetIntegeri_v(gl.MAX_COMPUTE_WORK_GROUP_COUNT, uint32(i), &n)
		f.groups[i] = uint32(n)
	}
	f.software = slices.ContainsFunc(softwareRenderers, func(name string) bool { return strings.HasPrefix(f.renderer, name) })
	for i := range count {
		f.extensions[gl.GoStr(gl.GetStringi(gl.EXTENSIONS, uint32(i)))] = true
	}
	if f.has("GL_EXT_memory_object") {
		f.deviceUUID, f.driverUUID = ext.UUIDs()
	}
	drainErrors() // the next check must not find errors of the queries above
	return f, nil
}

// softwareRenderers are prefixes of the names of renderers that use no GPU.
var softwareRenderers = []string{"llvmpipe", "softpipe", "swrast", "SwiftShader"}

func (f *contextInfo) has(extensions ...string) bool {
	for _, name := range extensions {
		if !f.extensions[name] {
			return false
		}
	}
	return true
}

// memoryExtensions are what importing memory needs, semaphoreExtensions what
// importing a timeline needs besides: without the last of them GL_EXT_semaphore
// knows binary semaphores only, which cannot count.
var (
	memoryExtensions    = []string{"GL_EXT_memory_object", "GL_EXT_memory_object_fd"}
	semaphoreExtensions = []string{"GL_EXT_semaphore", "GL_EXT_semaphore_fd", "GL_NV_timeline_semaphore"}
)

func (f *contextInfo) properties(id core.DeviceID) core.Properties {
	p := core.Properties{
		ID:         id,
		Name:       f.renderer,
		Driver:     f.driver,
		UUID:       f.deviceUUID,
		DriverUUID: f.driverUUID,
		Alignment:  alignment,
		Capabilities: core.CapAsync | core.CapStreamWait | core.CapImportPointer | core.CapHostView |
			core.CapSemaphores | core.CapSubByte | core.CapConvert | core.CapPool | core.CapBatchCopy,
	}
	add := func(feature string, capability core.Capabilities, extensions []string) {
		i := slices.IndexFunc(extensions, func(e string) bool { return !f.has(e) })
		missing := ""
		if i >= 0 {
			missing = extensions[i]
		}
		p.AddFeature(feature, capability, i < 0, "the driver of %s does not have %s", f.renderer, missing)
	}
	p.AddFeature("export_opaque_fd", core.CapExportMemory, false, "OpenGL has no call that exports memory, whoever made the buffer: allocate with Vulkan or CUDA, and import it into OpenGL")
	add("import_opaque_fd", core.CapImportMemory, memoryExtensions)
	add("import_semaphore", core.CapImportSemaphores, slices.Concat(memoryExtensions, semaphoreExtensions))
	p.AddFeature("device_clock", core.CapDeviceClock, false, "the host waits for a fence after each piece of work, so that the host's clock says the same")
	p.AddFeature("context_loss", 0, f.robust, "the context was made without GL_LOSE_CONTEXT_ON_RESET")
	return p
}

// alignment is that of every allocation: each is the beginning of a buffer of its own.
const alignment = 256
