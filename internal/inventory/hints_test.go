package inventory

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestHintsNameTheMistakeOfAContainer(t *testing.T) {
	const lib, version = "/usr/lib/x86_64-linux-gnu/", "/proc/driver/nvidia/version"
	const icd = `{"ICD": {"library_path": "libGLX_nvidia.so.0"}}`
	card := map[string]string{"/dev/nvidiactl": "", "/dev/nvidia-uvm": "", lib + "libX11.so.6": "", lib + "libXext.so.6": "", lib + "libcuda.so.1": "", lib + "libcuda.so.550.54.15": "", lib + "libGLX_nvidia.so.0": "",
		"/etc/vulkan/icd.d/nvidia_icd.json": icd, version: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n"}
	with := func(change map[string]string, without ...string) map[string]string {
		files := map[string]string{}
		for path, content := range card {
			if !slices.Contains(without, path) {
				files[path] = content
			}
		}
		for path, content := range change {
			files[path] = content
		}
		return files
	}
	type env = map[string]string
	for _, c := range []struct {
		name    string
		files   map[string]string
		env     env
		host    bool
		refused error
		shm     int64
		memlock int64
		want    string // the names, and after each a part of the remedy
	}{
		{name: "nothing is there", files: env{}},
		{name: "a card that works", files: card},
		{name: "no compute", files: env{"/dev/nvidiactl": ""}, want: "nvidia_no_compute compute,utility"},
		{name: "no libcuda on a host", files: env{"/dev/nvidiactl": ""}, host: true, want: "nvidia_no_compute libcuda1"},
		{name: "no graphics", files: with(nil, "/etc/vulkan/icd.d/nvidia_icd.json", lib+"libGLX_nvidia.so.0"), want: "nvidia_no_graphics graphics"},
		{name: "no uvm", files: with(nil, "/dev/nvidia-uvm"), want: "nvidia_no_uvm nvidia-modprobe -u -c=0 on the host"},
		{name: "no uvm on a host", files: with(nil, "/dev/nvidia-uvm"), host: true, want: "nvidia_no_uvm load"},
		{name: "no uvm in the simulator", files: with(nil, "/dev/nvidia-uvm"), env: env{"DLX_CUDA_LIBRARY": "x"}},
		{name: "no uvm in WSL, which has no such file", files: with(env{"/dev/dxg": ""}, "/dev/nvidiactl", "/dev/nvidia-uvm")},
		{name: "no libXext", files: with(nil, lib+"libXext.so.6"), want: "nvidia_needs_x11 libxext6"},
		{name: "no libX11 and no ICD file", files: with(nil, lib+"libX11.so.6", "/etc/vulkan/icd.d/nvidia_icd.json"), want: "nvidia_no_graphics graphics"},
		{name: "void", files: env{}, env: env{"NVIDIA_VISIBLE_DEVICES": "void"}, want: "nvidia_not_given --gpus"},
		{name: "unset", files: env{version: ""}, want: "nvidia_not_given --gpus"},
		{name: "unset on a host", files: env{version: ""}, host: true},
		{name: "CDI gives void and the device", files: card, env: env{"NVIDIA_VISIBLE_DEVICES": "void"}},
		{name: "another version", files: with(env{lib + "libcuda.so.535.1": ""}), want: "nvidia_version image"},
		{name: "a baked ICD file", files: env{"/etc/vulkan/icd.d/nvidia_icd.json": icd}, want: "stale_manifest remove the file"},
		{name: "an ICD file of OpenCL without its library", files: env{"/etc/OpenCL/vendors/x.icd": "libx.so.1\n"}, want: "stale_manifest install"},
		{name: "a folder of the loader's settings", files: env{"/etc/OpenCL/vendors/x.icd": "libx.so.1\n", "/etc/ld.so.conf.d/x.conf": "/opt/x\n", "/opt/x/libx.so.1": ""}},
		{name: "a specification inside", files: env{"/etc/cdi/nvidia.yaml": ""}, want: "cdi_not_applied --device nvidia.com/gpu=all"},
		{name: "render group", files: env{"/dev/dri/renderD128": ""}, refused: syscall.EACCES, want: "device_access --group-add 109"},
		{name: "render group of a host", files: env{"/dev/dri/renderD128": ""}, host: true, refused: syscall.EACCES, want: "device_access group 109"},
		{name: "busy is no matter of permission", files: env{"/dev/dri/renderD128": ""}, refused: syscall.EBUSY},
		{name: "no kfd", files: env{"/sys/module/amdgpu/version": ""}, want: "kfd_missing --device /dev/kfd"},
		{name: "kfd refused", files: env{"/dev/kfd": ""}, refused: syscall.EPERM, want: "device_access --device /dev/kfd"},
		{name: "small shm", files: env{}, shm: 64 << 20, want: "small_shm --shm-size"},
		{name: "large shm", files: env{}, shm: 65 << 20},
		{name: "small memlock", files: card, memlock: 64 << 10, want: "small_memlock ulimit"},
		{name: "small memlock without a card", files: env{}, memlock: 64 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range c.files {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := &machine{root: root, env: func(name string) string { return c.env[name] }, open: func(string) error { return c.refused },
				group: func(string) string { return "109" },
				needs: func(string) []string { return []string{"libX11.so.6", "libXext.so.6", "libnvidia-glcore.so"} }, shm: c.shm, memlock: c.memlock, container: !c.host}
			if m.memlock == 0 {
				m.memlock = -1
			}
			for _, name := range []string{"cuda", "vulkan", "opencl", "rocm"} {
				m.backends = append(m.backends, Backend{Name: name, BuiltIn: true})
			}
			got := m.hints()
			name, remedy, _ := strings.Cut(c.want, " ")
			if c.want == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || got[0].Name != name || !strings.Contains(got[0].Remedy, remedy) || got[0].Problem == "" {
				t.Errorf("%+v, want %q", got, c.want)
			}
			m.backends = nil
			if name != "small_shm" && name != "small_memlock" && name != "nvidia_version" && name != "cdi_not_applied" {
				if got := m.hints(); len(got) != 0 {
					t.Errorf("a build without backends: %+v", got)
				}
			}
		})
	}
}

func TestAHintNamesThePackageOfWebGPU(t *testing.T) {
	none := func(string) string { return "" }
	root := t.TempDir()
	there := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	if err := os.MkdirAll(there, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(there, "libwgpu_native.so"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule    string
		root    string
		env     func(string) string
		backend Backend
		want    bool
	}{
		{"no library", t.TempDir(), none, Backend{BuiltIn: true}, true},
		{"the tag is missing", t.TempDir(), none, Backend{}, false},
		{"the variable names it", t.TempDir(), func(string) string { return "x" }, Backend{BuiltIn: true}, false},
		{"the loader finds it", root, none, Backend{BuiltIn: true}, false},
		{"a device works", t.TempDir(), none, Backend{BuiltIn: true, Devices: make([]Device, 1)}, false},
	} {
		c.backend.Name = "webgpu"
		got := (&machine{root: c.root, env: c.env, memlock: -1, backends: []Backend{c.backend}}).hints()
		if is := len(got) == 1 && got[0].Name == "webgpu_no_library" && strings.Contains(got[0].Remedy, "wgpu==0.32"); is != c.want || !c.want && len(got) > 0 {
			t.Errorf("%s: %+v", c.rule, got)
		}
	}
}

// A driver that works needs no library, wherever it has found it.
func TestADriverThatWorksNeedsNoLibrary(t *testing.T) {
	root, library := t.TempDir(), "/usr/lib/libGLX_nvidia.so.0"
	if err := os.MkdirAll(filepath.Join(root, "/usr/lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, library), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for driver, want := range map[string]int{"NVIDIA 570": 0, "llvmpipe": 1} {
		m := &machine{root: root, env: func(string) string { return "" }, needs: func(string) []string { return []string{"libX11.so.6"} },
			backends: []Backend{{Name: "vulkan", BuiltIn: true, Devices: []Device{{Properties: core.Properties{Driver: driver}}}}}}
		found := 0
		m.nvidiaNeeds(func(string, string, string, ...any) { found++ })
		if found != want {
			t.Errorf("with a device of %s: %d hints, want %d", driver, found, want)
		}
	}
}

func TestAContainerIsKnownByItsFiles(t *testing.T) {
	for path, content := range map[string]string{"/.dockerenv": "", "/run/.containerenv": "", "/proc/1/cgroup": "1:cpu:/kubepods/x", "/none": ""} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		m := &machine{root: root, env: func(string) string { return "" }}
		if got, want := m.inContainer(), path != "/none"; got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestWhatWorksNeedsNoHint(t *testing.T) {
	root := t.TempDir()
	m := &machine{root: root, env: func(string) string { return "none" }, memlock: -1, container: true,
		backends: []Backend{{Name: "cuda", BuiltIn: true, Devices: []Device{{Properties: core.Properties{}}}}}}
	if got := m.hints(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
