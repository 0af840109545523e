//go:build cuda && vulkan && linux && cgo

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

// noDrivers are variables with which there is no driver.
var noDrivers = []string{"DLX_CUDA_LIBRARY=/nonexistent/libcuda.so.1", "VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"}

// sessionOf runs the command in a process with additional variables, and returns its report and output.
func sessionOf(t *testing.T, env []string, args ...string) (report, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, append(args, path)...)
	c.Env = slices.Concat(os.Environ(), []string{asCommand + "=1"}, env)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return load(t, path), string(out)
}

// selected returns the flags that select all experiments, or in short mode some of each kind, and their number.
func selected() (args []string, n int) {
	all := experiments()
	if !testing.Short() {
		return nil, len(all)
	}
	prefixes := []string{"devices", "blocking/semaphore/cuMemA", "host_import/a", "pointers", "cuda_to", "vulkan_to", "latency", "queue", "strided", "pageable", "full"}
	for _, prefix := range prefixes {
		args = append(args, "-experiment", prefix)
		for _, x := range all {
			if strings.HasPrefix(x.name, prefix) {
				n++
			}
		}
	}
	return args, n
}

func TestWithoutDriversEachExperimentSaysWhy(t *testing.T) {
	args, want := selected()
	r, _ := sessionOf(t, noDrivers, args...)
	if !r.Complete || len(r.Experiments) != want {
		t.Fatalf("complete: %v, with %d experiments, want %d", r.Complete, len(r.Experiments), want)
	}
	for _, o := range r.Experiments {
		if o.Status != Skipped || !strings.Contains(o.Reason, "CUDA: ") && !strings.Contains(o.Reason, "Vulkan: ") {
			t.Errorf("%s is %s, because %q", o.Name, o.Status, o.Reason)
		}
	}
}

// simulated returns the variables of the simulator with little memory, or skips the test.
func simulated(t *testing.T) []string {
	t.Helper()
	if _, err := gpusim.Open(); err != nil {
		t.Skip(err)
	}
	return []string{"DLX_GPUSIM_MEMORY=134217728", "DLX_GPUSIM_DEVICES=1"}
}

// rowsOf returns the rows of an experiment, which must be done and marked as simulated.
func rowsOf(t *testing.T, r report, name string) []row {
	t.Helper()
	i := slices.IndexFunc(r.Experiments, func(o outcome) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("the report has no %s", name)
	}
	o := r.Experiments[i]
	if o.Status != Done || !o.Simulated || len(o.Driven) == 0 {
		t.Fatalf("%s: %s, simulated: %v, on %v: %s", name, o.Status, o.Simulated, o.Driven, o.Reason)
	}
	rows := make([]row, len(o.Rows))
	for i, text := range o.Rows {
		if err := json.Unmarshal(text, &rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// What the simulator and lavapipe are known to do must be found.
func TestOnTheSimulator(t *testing.T) {
	args, want := selected()
	r, out := sessionOf(t, simulated(t), args...)
	if !r.Complete || !r.Simulated || len(r.Experiments) != want {
		t.Errorf("complete: %v, simulated: %v, with %d experiments, want %d\n%s", r.Complete, r.Simulated, len(r.Experiments), want, out)
	}
	for _, o := range r.Experiments {
		if o.Status != Done && o.Name != "strided_torch" && o.Name != "host_import/huge_pages" {
			t.Errorf("%s is %s, because %q", o.Name, o.Status, o.Reason)
		}
	}
	if rows := rowsOf(t, r, "devices"); rows[0]["device"] != "dlx simulated GPU" || rows[0]["uuid"] != rows[1]["uuid"] {
		t.Errorf("devices: %v", rows)
	}
	if x := rowsOf(t, r, "host_import/anonymous")[0]; x["handle_type"] != "HOST_ALLOCATION" || x["device_reads"] != true || x["device_writes"] != true {
		t.Errorf("the first import of anonymous memory: %v", x)
	}
	kinds := make(map[any]row)
	for _, x := range rowsOf(t, r, "pointers") {
		kinds[x["memory"]] = x
	}
	for _, c := range []struct{ memory, attribute, want string }{
		{"cuMemAlloc", "MEMORY_TYPE", "0x2"},
		{"cuMemHostAlloc", "MEMORY_TYPE", "0x1"},
		{"cuMemHostRegister", "MEMORY_TYPE", "0x1"},
		{"cuMemAllocManaged", "IS_MANAGED", "0x1"},
		{"cuMemCreate on the device", "ALLOWED_HANDLE_TYPES", "0x1"},
		{"cuMemCreate on the host", "missing", "cuMemGetAllocationGranularity: CUDA_ERROR_NOT_SUPPORTED (801)"},
		{"cuMemAllocAsync", "CONTEXT", "0x0"},
		{"memory of Vulkan, imported", "MEMORY_TYPE", "0x2"},
		{"memory that is not the driver's", "MEMORY_TYPE", "CUDA_ERROR_INVALID_VALUE"},
	} {
		if got := kinds[c.memory][c.attribute]; got != c.want {
			t.Errorf("%s of %s is %v, want %s", c.attribute, c.memory, got, c.want)
		}
	}
	for _, name := range []string{"cuda_to_vulkan/2MiB", "cuda_to_vulkan/6GiB", "vulkan_to_cuda/1GiB"} {
		if x := rowsOf(t, r, name)[0]; x["right"] != true || x["mechanism"] != "map" {
			t.Errorf("%s: %v", name, x)
		}
	}
	latency := rowsOf(t, r, "latency")
	if len(latency) != 6 || latency[5]["missing"] == nil {
		t.Errorf("latency: %v, want five times, and why no queue of Vulkan waits for CUDA", latency)
	}
	for _, x := range latency[:5] {
		if ns, ok := x["median_ns"].(float64); !ok || ns <= 0 {
			t.Errorf("latency: %v", x)
		}
	}
	if x := rowsOf(t, r, "queue_families")[0]; x["upload_ns"] == nil || x["missing"] != nil {
		t.Errorf("the first queue family: %v", x)
	}
	for _, x := range rowsOf(t, r, "strided") {
		if x["missing"] != nil || x["median_ns"] == 0 {
			t.Errorf("a strided copy: %v", x)
		}
	}
	pool := rowsOf(t, r, "full_pool")
	if full, trimmed := pool[1]["cuMemAlloc"], pool[4]["cuMemAlloc"]; full != "CUDA_ERROR_OUT_OF_MEMORY" || trimmed != "CUDA_SUCCESS" {
		t.Errorf("cuMemAlloc beside a full pool: %v, beside a trimmed one: %v", full, trimmed)
	}
}

// With DLX_GPUSIM_DRAIN_LOCK, calls that free memory wait for all work, and no other call returns meanwhile.
func TestCallsThatBlockAreSeen(t *testing.T) {
	r, _ := sessionOf(t, append(simulated(t), "DLX_GPUSIM_DRAIN_LOCK=1"), "-blocked", "400ms",
		"-experiment", "blocking/semaphore/cuMemFree", "-experiment", "blocking/word/cuMemUnmap", "-experiment", "blocking/word/cuCtxSynchronize")
	for name, others := range map[string]string{
		"blocking/semaphore/cuMemFree":   "blocks",
		"blocking/word/cuMemUnmap":       "blocks",
		"blocking/word/cuCtxSynchronize": "CUDA_SUCCESS",
	} {
		rows := rowsOf(t, r, name)
		if rows[0]["blocks"] != true || rows[0]["code"] != nil {
			t.Errorf("%s: %v, want that it blocks", name, rows[0])
			continue
		}
		if meanwhile := rows[0]["meanwhile"].(map[string]any); meanwhile["copy of pinned memory on another stream"] != others {
			t.Errorf("%s, meanwhile: %v, want that the copy: %s", name, meanwhile, others)
		}
		if x := rows[1]; x["signal_returns"] != true || x["call_returns"] != true || x["code"] != "CUDA_SUCCESS" {
			t.Errorf("%s, once the wait is satisfied: %v", name, x)
		}
	}
}

func TestCallsThatDoNotBlockAreSeen(t *testing.T) {
	r, _ := sessionOf(t, simulated(t), "-blocked", "25s", "-experiment", "blocking/semaphore/cuEventQuery", "-experiment", "blocking/word/cuMemAlloc")
	for _, o := range r.Experiments {
		rows := rowsOf(t, r, o.Name)
		if rows[0]["blocks"] != false || rows[0]["code"] != "CUDA_SUCCESS" || rows[1]["signal_returns"] != true {
			t.Errorf("%s: %v", o.Name, rows)
		}
	}
}

// The script for PyTorch runs with a fake, and without PyTorch.
func TestPyTorchIsMeasuredWhereItIs(t *testing.T) {
	python := os.Getenv("DLX_PYTHON")
	if python == "" {
		t.Skip("DLX_PYTHON names no Python; make test sets it")
	}
	args := []string{"-python", python, "-script", "../../../backends/cuda/first_session_torch.py", "-experiment", "strided", "-experiment", "full_pool"}
	env := simulated(t)
	r, _ := sessionOf(t, append(env, "PYTHONPATH=testdata", "PYTHONDONTWRITEBYTECODE=1"), args...)
	ours, theirs := rowsOf(t, r, "strided"), rowsOf(t, r, "strided_torch")
	if len(ours) != len(theirs) {
		t.Fatalf("%d copies of dlx and %d of PyTorch", len(ours), len(theirs))
	}
	for i, x := range theirs {
		for _, field := range []string{"layout", "type", "bytes"} {
			if x[field] != ours[i][field] {
				t.Errorf("copy %d: %s is %v for dlx and %v for PyTorch", i, field, ours[i][field], x[field])
			}
		}
		if ns, ok := x["median_ns"].(float64); !ok || ns <= 0 {
			t.Errorf("copy %d took PyTorch %v ns", i, x["median_ns"])
		}
	}
	if x := rowsOf(t, r, "full_pool")[2]; x["torch.empty"] != "Tried to allocate too much" || x["when"] != "the pool is full" {
		t.Errorf("torch.empty beside a full pool: %v", x)
	}

	r, _ = sessionOf(t, append(env, "PYTHONPATH="), append(args, "-python", python)...)
	i := slices.IndexFunc(r.Experiments, func(o outcome) bool { return o.Name == "strided_torch" })
	if o := r.Experiments[i]; o.Status != Done && (o.Status != Skipped || !strings.HasPrefix(o.Reason, "torch: ")) {
		t.Errorf("without a fake: %s, because %q", o.Status, o.Reason)
	}
}

// kit makes a folder like that which scripts/gpu-kit.sh builds, with this test binary as the command.
func kit(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.Mkdir(filepath.Join(dir, "lib"), 0o755),
			os.Symlink(self, filepath.Join(dir, "bin", "firstsession")))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]string{
		"first-session.sh":       "../../../scripts/gpu-kit-first-session.sh",
		"drivers.sh":             "../../../scripts/gpu-kit-drivers.sh",
		"first_session_torch.py": "../../../backends/cuda/first_session_torch.py",
	} {
		text, err := os.ReadFile(at)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheScript(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	dir, out, mounted := kit(t), t.TempDir(), t.TempDir()
	// A driver where LD_LIBRARY_PATH says, and no file that names it to the loader.
	if err := os.WriteFile(filepath.Join(mounted, "libEGL_nvidia.so.0"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	script := func(env ...string) (report, string) {
		c := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "first-session.sh"), out, "-experiment", "devices", "-experiment", "strided")
		c.Env = slices.Concat(os.Environ(), []string{asCommand + "=1", "DLX_PYTHON=" + os.Getenv("DLX_PYTHON")}, env)
		printed, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if _, err := os.Stat(filepath.Join(out, "nvidia-smi.txt")); err != nil {
			t.Error(err)
		}
		return load(t, filepath.Join(out, "first-session.json")), string(printed)
	}
	r, printed := script("DLX_CUDA_LIBRARY=/nonexistent", "VK_DRIVER_FILES=", "__EGL_VENDOR_LIBRARY_FILENAMES=", "LD_LIBRARY_PATH="+mounted)
	if len(r.Experiments) != 3 || r.Experiments[0].Status != Skipped {
		t.Errorf("the report: %+v", r)
	}
	if !strings.Contains(printed, "the kit brings: ") || !strings.Contains(printed, "nvidia_icd.json") {
		t.Errorf("the script does not say that it brings nvidia_icd.json:\n%s", printed)
	}
	r, printed = script(simulated(t)...)
	if rowsOf(t, r, "strided"); !strings.Contains(printed, "strided_torch") {
		t.Errorf("nothing of strided_torch:\n%s", printed)
	}
}
