//go:build cuda && linux && cgo

package cufile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// build compiles the fake and returns its path.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libcufile.so.0")
	args := append([]string{"-shared", "-fPIC", "-o", path, "testdata/fake.c"}, flags...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return path
}

// variable returns a variable of the fake.
func variable(l *Library, name string) *int32 {
	address := l.library.Lookup(name)
	return *(**int32)(unsafe.Pointer(&address))
}

// setup returns the fake and an open file with bytes that are not all the same.
func setup(t *testing.T) (*Library, *os.File, []byte) {
	t.Helper()
	l, err := Open(build(t))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 10000)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = file.Close()
		if n := *variable(l, "dlx_fake_files"); n != 0 {
			t.Errorf("%d files are still registered", n)
		}
	})
	return l, file, data
}

// address is where the fake reads to.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func check(t *testing.T, err, sentinel error, call string, code int64) {
	t.Helper()
	var typed *core.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &typed) || typed.Backend != backend || typed.Call != call || typed.Code != code {
		t.Fatalf("error %v, want %q by %s: %s with code %d", err, sentinel, backend, call, code)
	}
}

func TestRead(t *testing.T) {
	l, file, data := setup(t)
	f, err := l.Register(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	for _, short := range []int32{0, 5} {
		*variable(l, "dlx_fake_fault") = short
		dst := make([]byte, 5000)
		if err := f.Read(address(dst), 100, 37, 4000); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst[100:4100], data[37:4037]) || !bytes.Equal(dst[:100], make([]byte, 100)) || !bytes.Equal(dst[4100:], make([]byte, 900)) {
			t.Fatalf("other bytes than those of the file, with fault %d", short)
		}
	}
	dst := make([]byte, 100)
	check(t, f.Read(address(dst), 0, 9950, 100), io.ErrUnexpectedEOF, "cuFileRead", 0)
	check(t, f.Read(address(dst), 0, -1, 100), core.ErrInvalid, "cuFileRead", 0)
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check(t, f.Read(address(dst), 0, 0, 100), core.ErrClosed, "cuFileRead", 0)
	if _, err := file.Stat(); err != nil {
		t.Fatalf("the descriptor was closed: %v", err)
	}
}

func TestEachCallFails(t *testing.T) {
	l, file, _ := setup(t)
	fail := func(kind, code int32) {
		*variable(l, "dlx_fake_fault"), *variable(l, "dlx_fake_code") = kind, code
	}
	for code, sentinel := range map[int32]error{fileUnfit: core.ErrNotSupported, baseError + 22: core.ErrInvalid, cudaDriver: core.ErrInvalid} {
		fail(2, code)
		_, err := l.Register(int(file.Fd()))
		check(t, err, sentinel, "cuFileHandleRegister", int64(code))
	}
	f, err := l.Register(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dst := make([]byte, 100)
	fail(3, int32(syscall.EIO))
	check(t, f.Read(address(dst), 0, 0, 100), syscall.EIO, "cuFileRead", int64(syscall.EIO))
	fail(4, deviceUnfit)
	check(t, f.Read(address(dst), 0, 0, 100), core.ErrNotSupported, "cuFileRead", deviceUnfit)
	if err := f.Read(address(dst), 0, 0, 100); err != nil {
		t.Fatalf("after the failures: %v", err)
	}
}

func TestOpen(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "libcufile.so.0"))
	check(t, err, core.ErrNotSupported, "dlopen", 0)
	_, err = Open(build(t, "-DcuFileRead=other"))
	check(t, err, core.ErrVersion, "dlsym", 0)
	path := build(t)
	for text, code := range map[string]int64{"5001": notInitialized, "5033": setupFailed} {
		t.Setenv("DLX_CUFILE_OPEN", text)
		_, err = Open(path)
		check(t, err, core.ErrNotSupported, "cuFileDriverOpen", code)
	}
	t.Setenv("DLX_CUFILE_OPEN", "5026") // by other code of the process
	if _, err = Open(path); err != nil {
		t.Fatal(err)
	}
}

func TestCheckLooksForTheModule(t *testing.T) {
	defer func(was string) { statistics = was }(statistics)
	statistics = filepath.Join(t.TempDir(), "stats")
	check(t, Check(), core.ErrNotSupported, "CanReadFiles", 0)
	if err := os.WriteFile(statistics, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(); err != nil {
		t.Fatal(err)
	}
}
