package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/internal/strictjson"
)

// Hint is a usual mistake of a container or of the system's permissions, which keeps devices from a program.
type Hint struct {
	Name    string `json:"name"`    // such as "nvidia_no_compute"; docker/README.md lists them
	Problem string `json:"problem"` // what was found
	Remedy  string `json:"remedy"`
}

// machine is what hints are derived from. Tests make their own.
type machine struct {
	root      string                     // "/", or a copy for tests
	env       func(name string) string   // the environment
	open      func(path string) error    // why the process may not open a device file for reading and writing
	group     func(path string) string   // the number of the group of a file
	needs     func(path string) []string // the libraries that a library is linked with
	shm       int64                      // bytes of /dev/shm; 0 if not known
	memlock   int64                      // bytes of memory that the process may lock; -1 if there is no limit
	backends  []Backend
	container bool
}

// inContainer reports whether the files of a container are there.
func (m *machine) inContainer() bool {
	if m.env("KUBERNETES_SERVICE_HOST") != "" || m.env("container") != "" || m.has("/.dockerenv") || m.has("/run/.containerenv") {
		return true
	}
	return regexp.MustCompile(`docker|kubepods|libpod|containerd|lxc`).MatchString(m.read("/proc/1/cgroup"))
}

func (m *machine) glob(patterns ...string) []string {
	var found []string
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(filepath.Join(m.root, pattern)) // fails only for a wrong pattern
		for _, path := range paths {
			if rel, err := filepath.Rel(m.root, path); err == nil {
				found = append(found, "/"+filepath.ToSlash(rel))
			}
		}
	}
	return found
}

func (m *machine) has(patterns ...string) bool { return len(m.glob(patterns...)) > 0 }

func (m *machine) read(path string) string {
	content, err := os.ReadFile(filepath.Join(m.root, path))
	if err != nil {
		return ""
	}
	return string(content)
}

// library returns the paths of a library, whose name may be a pattern.
func (m *machine) library(name string) []string {
	if strings.HasPrefix(name, "/") {
		return m.glob(name)
	}
	folders := []string{"/usr/lib/*-linux-gnu", "/lib/*-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib",
		"/usr/local/lib", "/usr/local/lib/*-linux-gnu", "/usr/local/nvidia/lib*", "/usr/lib/wsl/lib"}
	folders = append(folders, strings.Split(m.env("LD_LIBRARY_PATH"), ":")...)
	for _, file := range m.glob("/etc/ld.so.conf.d/*.conf") {
		folders = append(folders, strings.Fields(m.read(file))...)
	}
	var found []string
	for _, folder := range folders {
		if strings.HasPrefix(folder, "/") {
			found = append(found, m.glob(folder+"/"+name)...)
		}
	}
	return found
}

// backend reports whether a backend is in this build, and how many devices it has found.
func (m *machine) backend(name string) (built bool, devices int) {
	for _, b := range m.backends {
		if b.Name == name {
			return b.BuiltIn, len(b.Devices)
		}
	}
	return false, 0
}

// built reports whether one of the backends is in this build.
func (m *machine) built(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		built, _ := m.backend(name)
		return built
	})
}

// works reports whether one of the backends has a device of a driver or with a name that contains a word in small letters.
func (m *machine) works(word string, names ...string) bool {
	return slices.ContainsFunc(m.backends, func(b Backend) bool {
		return slices.Contains(names, b.Name) && slices.ContainsFunc(b.Devices, func(d Device) bool {
			return strings.Contains(strings.ToLower(d.Name+" "+d.Driver), word)
		})
	})
}

const withGPU = "start the container with --gpus all, or by CDI with --device nvidia.com/gpu=all; in Kubernetes ask for nvidia.com/gpu"

// hints returns what is wrong, nil if nothing is.
func (m *machine) hints() []Hint {
	var found []Hint
	add := func(name, remedy, problem string, args ...any) {
		found = append(found, Hint{name, fmt.Sprintf(problem, args...), remedy})
	}
	m.nvidia(add)
	m.manifests(add)
	m.access(add)
	if built, devices := m.backend("webgpu"); built && devices == 0 && m.env("DLX_WEBGPU_LIBRARY") == "" && len(m.library("libwgpu_native*.so")) == 0 {
		add("webgpu_no_library", "pip install wgpu==0.32.0, and set DLX_WEBGPU_LIBRARY to the path of libwgpu_native-release.so in its folder wgpu/resources",
			"the loader's folders have no libwgpu_native.so, which no distribution has as a package")
	}
	cards := m.has("/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD*")
	if m.container && m.shm > 0 && m.shm <= 64<<20 {
		add("small_shm", "use --shm-size=1g; in Kubernetes mount an emptyDir of medium Memory at /dev/shm",
			"/dev/shm has only %d MiB: programs that share memory by name, such as MPI and PyTorch's loaders, fail when it is full", m.shm>>20)
	}
	if cards && m.memlock >= 0 && m.memlock <= 64<<10 {
		add("small_memlock", "use --ulimit memlock=-1, or raise it with ulimit -l",
			"this process may lock only %d KiB of memory, which is too little to pin host memory for network cards and other devices", m.memlock>>10)
	}
	return found
}

var kernelVersion = regexp.MustCompile(`[ \t]([0-9]+\.[0-9]+(\.[0-9]+)?)[ \t\n]`)

// nvidia looks for the mistakes of NVIDIA's container toolkit.
func (m *machine) nvidia(add func(name, remedy, problem string, args ...any)) {
	visible, capabilities := m.env("NVIDIA_VISIBLE_DEVICES"), m.env("NVIDIA_DRIVER_CAPABILITIES")
	cuda, devices := m.backend("cuda")
	files := m.has("/dev/nvidiactl", "/dev/nvidia[0-9]*", "/dev/dxg")
	driver := m.has("/proc/driver/nvidia/version", "/sys/module/nvidia")
	if m.container && cuda && devices == 0 && !files && (driver || visible == "none" || visible == "void") {
		value := "NVIDIA_VISIBLE_DEVICES is " + visible
		if visible == "" {
			value = "NVIDIA_VISIBLE_DEVICES is not set"
		}
		add("nvidia_not_given", withGPU, "the container was given no GPU of NVIDIA: there is no /dev/nvidiactl, and %s", value)
	}
	if specs := m.glob("/etc/cdi/*nvidia*", "/run/cdi/*nvidia*", "/var/run/cdi/*nvidia*"); m.container && !files && len(specs) > 0 {
		add("cdi_not_applied", withGPU, "%s is in the container, where nothing reads it: the runtime applies a CDI specification on the host", specs[0])
	}
	if !files {
		return
	}
	library := m.library("libcuda.so.1")
	if len(library) == 0 {
		if cuda && devices == 0 && m.env("DLX_CUDA_LIBRARY") == "" {
			remedy := "install the driver's library (Debian: libcuda1)"
			if m.container {
				remedy = "set NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics, and start the container with --gpus all, not with the device files alone"
			}
			add("nvidia_no_compute", remedy, "NVIDIA's device files are there and libcuda.so.1 is not (NVIDIA_DRIVER_CAPABILITIES=%s)", capabilities)
		}
		return
	}
	if cuda && devices == 0 && m.has("/dev/nvidiactl") && !m.has("/dev/nvidia-uvm") && m.env("DLX_CUDA_LIBRARY") == "" {
		remedy := "load the kernel's module: nvidia-modprobe -u -c=0, as root"
		if m.container {
			remedy = withGPU + "; if that is so, run nvidia-modprobe -u -c=0 on the host, which makes the file, and start the container again"
		}
		add("nvidia_no_uvm", remedy, "/dev/nvidia-uvm is not there, without which CUDA finds no device")
	}
	vulkan := m.has("/etc/vulkan/icd.d/nvidia*.json", "/usr/share/vulkan/icd.d/nvidia*.json", "/usr/local/share/vulkan/icd.d/nvidia*.json")
	egl := m.has("/etc/glvnd/egl_vendor.d/*nvidia*.json", "/usr/share/glvnd/egl_vendor.d/*nvidia*.json")
	if m.built("vulkan", "gl") && !vulkan && !egl {
		remedy := "install the parts of NVIDIA's driver for Vulkan and OpenGL"
		if m.container {
			remedy = "set NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics; if it is set, the host lacks these parts of the driver, or its container toolkit is too old to mount them"
		}
		add("nvidia_no_graphics", remedy, "libcuda.so.1 is there, and neither NVIDIA's ICD file for Vulkan nor that for EGL is (NVIDIA_DRIVER_CAPABILITIES=%s)", capabilities)
	}
	if vulkan || egl {
		m.nvidiaNeeds(add)
	}
	if match := kernelVersion.FindStringSubmatch(m.read("/proc/driver/nvidia/version")); match != nil {
		for _, path := range m.library("libcuda.so.[0-9]*.[0-9]*") {
			if version := path[strings.LastIndex(path, "libcuda.so.")+len("libcuda.so."):]; version != match[1] {
				remedy := "restart the machine after a change of the driver"
				if m.container {
					remedy = "remove NVIDIA's driver from the image, and start the container again: the container toolkit mounts that of the host; a CDI specification must be made again after a change of the driver (nvidia-ctk cdi generate)"
				}
				add("nvidia_version", remedy, "%s has version %s, and the kernel's module has %s", path, version, match[1])
				return
			}
		}
	}
}

// nvidiaNeeds looks for what NVIDIA's libraries for Vulkan and OpenGL are linked with. The container toolkit mounts the
// driver's own libraries only, and the loaders of Vulkan and EGL do not say which library is missing.
func (m *machine) nvidiaNeeds(add func(name, remedy, problem string, args ...any)) {
	if !m.built("vulkan", "gl") || m.works("nvidia", "vulkan", "gl") {
		return
	}
	for _, name := range []string{"libGLX_nvidia.so.0", "libEGL_nvidia.so.0"} {
		for _, path := range m.library(name) {
			var missing []string
			for _, needed := range m.needs(path) {
				if strings.HasPrefix(needed, "libX") && len(m.library(needed)) == 0 {
					missing = append(missing, needed)
				}
			}
			if len(missing) > 0 {
				add("nvidia_needs_x11", "install them, also where there is no window (Debian: libx11-6, libxext6)",
					"%s is linked with %s, which this system lacks, so that Vulkan and OpenGL do not find NVIDIA's driver", path, strings.Join(missing, " and "))
				return
			}
		}
	}
}

// manifests looks for files that name drivers which are not there.
func (m *machine) manifests(add func(name, remedy, problem string, args ...any)) {
	report := func(file, library string) {
		if strings.Contains(library, "/") && !strings.HasPrefix(library, "/") {
			library = filepath.Join(filepath.Dir(file), library)
		}
		if library == "" || len(m.library(library)) > 0 {
			return
		}
		remedy := "install the driver, or remove the file"
		if m.container && strings.Contains(library, "nvidia") {
			remedy = "remove the file from the image; NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics mounts the host's, with the library"
		}
		add("stale_manifest", remedy, "%s names the driver %s, which is not there", file, library)
	}
	if m.built("vulkan", "gl") {
		for _, file := range m.glob("/etc/vulkan/icd.d/*.json", "/usr/share/vulkan/icd.d/*.json", "/usr/local/share/vulkan/icd.d/*.json",
			"/etc/glvnd/egl_vendor.d/*.json", "/usr/share/glvnd/egl_vendor.d/*.json") {
			var manifest struct {
				ICD struct {
					Library string `json:"library_path"`
				} `json:"ICD"`
			}
			if strictjson.Unmarshal([]byte(m.read(file)), &manifest) == nil {
				report(file, manifest.ICD.Library)
			}
		}
	}
	if m.built("opencl", "oneapi") {
		for _, file := range m.glob("/etc/OpenCL/vendors/*.icd") {
			report(file, strings.TrimSpace(m.read(file)))
		}
	}
}

// access looks for device files that the process may not open.
func (m *machine) access(add func(name, remedy, problem string, args ...any)) {
	if rocm, _ := m.backend("rocm"); rocm && !m.has("/dev/kfd") && m.has("/sys/module/amdgpu", "/sys/class/kfd/kfd") {
		remedy := "the kernel's driver amdgpu makes it for supported cards: see its messages in dmesg"
		if m.container {
			remedy = "start the container with --device /dev/kfd --device /dev/dri; in Kubernetes ask for amd.com/gpu"
		}
		add("kfd_missing", remedy, "the host has AMD's driver, and there is no /dev/kfd")
	}
	var files []string
	if m.built("vulkan", "gl", "opencl", "oneapi", "rocm") {
		files = m.glob("/dev/dri/renderD*")
	}
	if m.built("rocm") {
		files = append(files, m.glob("/dev/kfd")...)
	}
	if m.built("cuda", "vulkan", "gl", "opencl", "oneapi") {
		files = append(files, m.glob("/dev/nvidiactl")...)
	}
	for _, file := range files {
		err := m.open(file)
		if !errors.Is(err, fs.ErrPermission) {
			continue
		}
		group := m.group(file)
		remedy := "add the user to the group " + group + ", and log in again"
		if m.container {
			remedy = "start the container with --device " + file + " --group-add " + group + "; in Kubernetes set supplementalGroups: [" + group +
				"]; with rootless podman use --group-add keep-groups"
		}
		add("device_access", remedy, "%s may not be opened (%v); its group is %s", file, err, group)
	}
}
