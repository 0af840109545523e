package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
)

// The programs that measure in Python. The first is also that of package benchmarks.
const (
	copySampler = "benchmarks/numpy_sampler.py"
	wgpuSampler = "benchmarks/lab/peers/wgpu_sampler.py"
)

// copyRequest is a request to copySampler: what to prepare, or so many operations of what is prepared.
type copyRequest struct {
	Prepare string `json:"prepare,omitempty"`
	Library string `json:"library"`
	Size    int64  `json:"size,omitempty"`
	Places  int    `json:"places,omitempty"`
	Threads int    `json:"threads,omitempty"`
	N       int    `json:"n,omitempty"`
}

func runNumPy(ctx context.Context, b *bench) []Row {
	return b.pythonCopies(ctx, "NumPy", "numpy", "np.copyto", []int{1})
}

func runTorch(ctx context.Context, b *bench) []Row {
	return b.pythonCopies(ctx, "PyTorch", "torch", "torch.Tensor.copy_", threadCounts())
}

// pythonCopies measures a library's copies of bytes in a row. dlx has as many threads.
func (b *bench) pythonCopies(ctx context.Context, name, library, call string, threads []int) []Row {
	var rows []Row
	version, err := b.pythonVersion(ctx, library)
	if err == nil {
		version = name + " " + version
	}
	for _, size := range b.sizes() {
		var all, theirs, ours []*series
		var closers []func()
		first := len(rows)
		for _, count := range threads {
			row := Row{
				Peer: name, Version: version, Case: "copy", Size: size, Threads: count, DLX: "host_to_host",
				Command: fmt.Sprintf(`python %s <<< '{"prepare": "copy_rows", "library": "%s", "size": %d, "places": 1, "threads": %d}'`, copySampler, library, size, count),
				Notes:   call,
			}
			peer, own, end, prepareErr := b.preparePython(ctx, library, size, count)
			if cause := errors.Join(err, prepareErr); cause != nil {
				peer, own = &series{err: firstOf(err, prepareErr)}, nil
			} else {
				closers = append(closers, end)
				all = append(all, own, peer)
			}
			rows, theirs, ours = append(rows, row), append(theirs, peer), append(ours, own)
		}
		if ended := byTurns(ctx, b.rounds, b.length, all); ended != nil {
			for _, s := range theirs {
				s.err = firstOf(s.err, ended)
			}
		}
		for i := range theirs {
			rows[first+i].finish(theirs[i], ours[i], size)
		}
		for _, end := range closers {
			end()
		}
	}
	return rows
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// preparePython starts a process for the library and allocates memory of dlx. end gives both back.
func (b *bench) preparePython(ctx context.Context, library string, size int64, threads int) (peer, own *series, end func(), err error) {
	if err := b.needPython(); err != nil {
		return nil, nil, nil, err
	}
	c, err := start(ctx, b.python, copySampler)
	if err != nil {
		return nil, nil, nil, err
	}
	if _, err = c.ask(copyRequest{Prepare: "copy_rows", Library: library, Size: size, Places: 1, Threads: threads}); err != nil {
		c.close()
		return nil, nil, nil, err
	}
	copier, err := b.newCopier(ctx, core.CPU, host, host, size)
	if err != nil {
		c.close()
		return nil, nil, nil, err
	}
	peer = &series{name: library, sample: func(n int) (time.Duration, error) {
		a, err := c.ask(copyRequest{Library: library, N: n})
		return a.Time, err
	}}
	return peer, copier.series(ctx, "host_to_host", threads), func() { copier.close(); c.close() }, nil
}

// needPython says how the Python of the peers is made, where it is missing.
func (b *bench) needPython() error {
	if _, err := os.Stat(b.python); errors.Is(err, fs.ErrNotExist) {
		return notInstalled("there is no %s: scripts/peers.sh makes it, on Linux with Python 3.11 to 3.13", b.python)
	}
	return nil
}

// pythonVersion returns the version of a module, as it says itself.
func (b *bench) pythonVersion(ctx context.Context, module string) (string, error) {
	if err := b.needPython(); err != nil {
		return "", err
	}
	out, err := output(ctx, nil, b.python, "-c", "import sys, "+module+" as m; print(m.__version__, 'with Python', sys.version.split()[0])")
	if err != nil && strings.Contains(err.Error(), "No module named '"+module+"'") {
		return "", notInstalled("%s is not in the environment of %s: scripts/peers.sh installs it", module, b.python)
	}
	return strings.TrimSpace(out), err
}

// wgpuRequest is a request to wgpuSampler: a size prepares, a number measures.
type wgpuRequest struct {
	Case string `json:"case"`
	Size int64  `json:"size,omitempty"`
	N    int    `json:"n,omitempty"`
}

// wgpuCases are the transfers of wgpu, and the names of those of dlx.
var wgpuCases = []struct{ name, call, dlx string }{
	{"upload", "queue.write_buffer, and the wait for it", "vulkan host_to_device"},
	{"download", "queue.read_buffer, which allocates the memory that it gives back", "vulkan device_to_host"},
}

// runWGPU measures the transfers of wgpu-native, on the first device of Vulkan that it finds. Debian has no program that
// measures transfers of Vulkan: not vkpeak, not vkmark, nor clpeak with Vulkan.
func runWGPU(ctx context.Context, b *bench) []Row {
	var rows []Row
	vulkan := core.DeviceID{Type: core.DeviceVulkan}
	sizes := []int64{1 << 20, 64 << 20}
	if b.small {
		sizes = []int64{16 << 10}
	}
	for _, size := range sizes {
		for _, c := range wgpuCases {
			row := Row{
				Peer: "wgpu", Case: c.name, Size: size, DLX: c.dlx, Notes: c.call,
				Command: fmt.Sprintf(`python %s <<< '{"case": "%s", "size": %d}'`, wgpuSampler, c.name, size),
			}
			if err := b.wgpuRow(ctx, &row, vulkan, c.name); err != nil {
				row.refuse(err)
				row.DLX = ""
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func (b *bench) wgpuRow(ctx context.Context, row *Row, vulkan core.DeviceID, name string) error {
	if err := b.needPython(); err != nil {
		return err
	}
	c, err := start(ctx, b.python, wgpuSampler)
	if err != nil {
		if strings.Contains(err.Error(), "No module named 'wgpu'") {
			return notInstalled("wgpu is not in the environment of %s: scripts/peers.sh installs it", b.python)
		}
		return err
	}
	defer c.close()
	row.Version = c.greeting.Version + ", on " + c.greeting.Device
	if _, err := c.ask(wgpuRequest{Case: name, Size: row.Size}); err != nil {
		return err
	}
	peer := &series{name: "wgpu", sample: func(n int) (time.Duration, error) {
		a, err := c.ask(wgpuRequest{Case: name, N: n})
		return a.Time, err
	}}
	dst, src := place{device: vulkan}, host
	if name == "download" {
		dst, src = src, dst
	}
	all := []*series{peer}
	own := &series{}
	copier, err := b.newCopier(ctx, vulkan, dst, src, row.Size)
	if err != nil {
		own.err = err
	} else {
		defer copier.close()
		own = copier.series(ctx, row.DLX, runtime.GOMAXPROCS(0))
		all = append(all, own)
	}
	if err := byTurns(ctx, b.rounds, b.length, all); err != nil {
		return err
	}
	row.finish(peer, own, row.Size)
	return nil
}
