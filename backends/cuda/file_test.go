//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/cuda/internal/cufile"
	"github.com/dlx-go/dlx/backends/cuda/internal/link"
	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// filesVariable makes the test binary read files by the fake for cuFile.
const filesVariable = "DLX_CUDA_TEST_FILES"

// withFiles runs a test in a process that has the fake for cuFile, and reports whether this is that process.
func withFiles(t *testing.T) bool {
	t.Helper()
	simulator(t)
	if os.Getenv(filesVariable) == "1" {
		return true
	}
	coretest.Child(t, t.Name(), append(fakeForFiles(t), filesVariable+"=1")...)(t)
	return false
}

// fakeForFiles builds the fake for cuFile, and returns the variables by which a process uses it.
func fakeForFiles(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libcufile.so.0")
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", path, "internal/cufile/testdata/fake.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return []string{cufile.LibraryVariable + "=" + path, "DLX_CUFILE_DRIVER=" + os.Getenv(link.LibraryVariable)}
}

// fakeCuFile returns the variables of the fake.
func fakeCuFile(t *testing.T) (fault, code, files *int32) {
	t.Helper()
	l, err := dl.Open("test", os.Getenv(cufile.LibraryVariable))
	if err != nil {
		t.Fatal(err)
	}
	variable := func(name string) *int32 {
		address := l.Lookup(name)
		return *(**int32)(unsafe.Pointer(&address))
	}
	return variable("dlx_fake_fault"), variable("dlx_fake_code"), variable("dlx_fake_files")
}

// dataFile makes a file with n bytes of a pattern.
func dataFile(t *testing.T, n int) (*os.File, []byte) {
	t.Helper()
	data := pattern(n, 7)
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file, data
}

func openFile(t *testing.T, d core.Device, file *os.File) core.DeviceFile {
	t.Helper()
	f, err := d.(core.FileReader).OpenFile(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestADeviceReadsFiles(t *testing.T) {
	if !withFiles(t) {
		return
	}
	d := opened(t)
	file, data := dataFile(t, 1<<20)
	fault, _, files := fakeCuFile(t)
	f := openFile(t, d, file)
	wantError(t, d.Close(), core.ErrInvalid, "Close with an open file")
	x := row(t, d, 1<<20, core.AllocOptions{})
	exported := row(t, d, 5000, core.AllocOptions{Export: core.HandleOpaqueFD}) // mapped memory
	var group sync.WaitGroup
	for i := range int64(8) { // pieces of one allocation, at the same time
		group.Go(func() {
			piece := keep(t)(x.Slice(0, i<<17, (i+1)<<17, 1))
			if err := f.ReadAt(t.Context(), piece, i<<17); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if !bytes.Equal(get(t, d, x), data) {
		t.Error("other bytes than those of the file")
	}
	*fault = 5 // a short read
	part := keep(t)(x.Slice(0, 11, 3011, 1))
	if err := f.ReadAt(t.Context(), part, 100); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(get(t, d, part), data[100:3100]) {
		t.Error("other bytes after a short read")
	}
	if err := f.ReadAt(t.Context(), keep(t)(x.Slice(0, 0, 0, 1)), 1<<30); err != nil {
		t.Errorf("a read of nothing: %v", err)
	}
	wantError(t, f.ReadAt(t.Context(), part, 1<<20-1), io.ErrUnexpectedEOF, "a read past the end")
	wantError(t, f.ReadAt(t.Context(), row(t, d, 100, core.AllocOptions{Type: core.DeviceCUDAHost}), 0), core.ErrDevice, "a read into pinned memory")
	if err := f.ReadAt(t.Context(), exported, 5); err != nil {
		t.Errorf("a read into mapped memory: %v", err)
	} else if !bytes.Equal(get(t, d, exported), data[5:5005]) {
		t.Error("other bytes in mapped memory")
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	wantError(t, f.ReadAt(t.Context(), part, 0), core.ErrClosed, "a read after Close")
	if _, err := file.Stat(); err != nil || *files != 0 {
		t.Errorf("the file is open: %v; %d files are registered", err, *files)
	}
	_, err := d.(core.FileReader).OpenFile(t.Context(), nil)
	wantError(t, err, core.ErrInvalid, "no file")
	_ = file.Close()
	_, err = d.(core.FileReader).OpenFile(t.Context(), file)
	wantError(t, err, core.ErrClosed, "a closed file")
}

func TestEachCallOfCuFileFails(t *testing.T) {
	if !withFiles(t) {
		return
	}
	sim := simulator(t)
	live := sim.Live()
	d := open(t, 1)
	file, _ := dataFile(t, 5000)
	fault, code, files := fakeCuFile(t)
	x := row(t, d, 5000, core.AllocOptions{})
	fail := func(kind, number int32) { *fault, *code = kind, number }
	f := openFile(t, d, file)
	fail(2, 5008) // CU_FILE_IO_NOT_SUPPORTED
	_, err := d.(core.FileReader).OpenFile(t.Context(), file)
	wantError(t, err, core.ErrNotSupported, "cuFileHandleRegister fails")
	fail(3, int32(syscall.EIO))
	wantError(t, f.ReadAt(t.Context(), x, 0), syscall.EIO, "cuFileRead fails by errno")
	fail(4, 5011) // CU_FILE_CUDA_DRIVER_ERROR
	wantError(t, f.ReadAt(t.Context(), x, 0), core.ErrInvalid, "cuFileRead fails by a code")
	sim.Fail("cuPointerGetAttributes", 1, 999)
	wantError(t, f.ReadAt(t.Context(), x, 0), core.ErrInvalid, "cuPointerGetAttributes fails")
	if err := f.ReadAt(t.Context(), x, 0); err != nil {
		t.Errorf("after the failures: %v", err)
	}
	sim.Fail("cuMemcpyHtoD", 1, 999) // as the device gets lost while cuFile reads
	sim.Fail("cuMemGetInfo", 1, 700) // CUDA_ERROR_ILLEGAL_ADDRESS
	wantError(t, f.ReadAt(t.Context(), x, 0), core.ErrDeviceLost, "the device is lost during a read")
	wantError(t, f.ReadAt(t.Context(), x, 0), core.ErrDeviceLost, "a read by a lost device")
	_, err = d.(core.FileReader).OpenFile(t.Context(), file)
	wantError(t, err, core.ErrDeviceLost, "OpenFile of a lost device")
	if err := errors.Join(f.Close(), x.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if *files != 0 {
		t.Errorf("%d files are registered", *files)
	}
	wantLive(t, sim, live)
}

func TestWithoutCuFile(t *testing.T) {
	const missing = "/nonexistent/libcufile.so.0"
	simulator(t)
	if os.Getenv(cufile.LibraryVariable) != missing {
		coretest.Child(t, t.Name(), cufile.LibraryVariable+"="+missing)(t)
		return
	}
	d := opened(t)
	file, _ := dataFile(t, 10)
	for range 2 {
		_, err := d.(core.FileReader).OpenFile(t.Context(), file)
		wantError(t, err, core.ErrNotSupported, "without the library")
	}
}
