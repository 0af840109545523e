package memfault_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/internal/memfault"
)

// cutShort maps a file and truncates it to nothing.
func cutShort(t *testing.T) []byte {
	t.Helper()
	size := 2 * os.Getpagesize()
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(data) })
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAFaultIsAnError(t *testing.T) {
	data := cutShort(t)
	within := memfault.Within(data)
	var sum byte
	copied := make([]byte, len(data))
	for name, read := range map[string]func(){
		"a byte":       func() { sum += data[7] },
		"the last":     func() { sum += data[len(data)-1] },
		"a copy":       func() { copy(copied, data) },
		"a conversion": func() { sum += string(data)[3] },
	} {
		var fault memfault.Error
		if err := memfault.Guard(within, read); !errors.As(err, &fault) || !within(fault.Address) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := memfault.Guard(within, func() {}); err != nil {
		t.Error(err)
	}
	var many sync.WaitGroup
	for range 8 {
		many.Go(func() {
			for range 100 {
				if err := memfault.Guard(within, func() { copy(copied[:0:0], data); sum := data[0]; runtime.KeepAlive(sum) }); err == nil {
					t.Error("no error")
				}
			}
		})
	}
	many.Wait()
}

func TestPresent(t *testing.T) {
	address := func(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }
	here := make([]byte, 10*os.Getpagesize())
	if err := memfault.Present(address(here)+1, uintptr(len(here))-1); err != nil {
		t.Error(err)
	}
	gone := cutShort(t)
	for _, size := range []uintptr{1, uintptr(len(gone))} {
		if err := memfault.Present(address(gone)+uintptr(len(gone))-size, size); !errors.Is(err, syscall.EFAULT) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := memfault.Present(address(gone), 0); err != nil {
		t.Error(err)
	}
}

func TestOtherPanicsGoOn(t *testing.T) {
	data := cutShort(t)
	var none *[10]byte
	for name, f := range map[string]func(){
		"a fault elsewhere": func() { _ = memfault.Guard(memfault.Within(nil), func() { runtime.KeepAlive(data[0]) }) },
		"a nil pointer":     func() { _ = memfault.Guard(memfault.Within(data), func() { none[3] = 1 }) },
		"an index":          func() { _ = memfault.Guard(memfault.Within(data), func() { runtime.KeepAlive(data[len(data):][0]) }) },
		"a value":           func() { _ = memfault.Guard(memfault.Within(data), func() { panic("x") }) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was swallowed", name)
				}
			}()
			f()
		}()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = memfault.Guard(memfault.Within(data), runtime.Goexit)
		t.Error("Goexit was swallowed")
	}()
	<-ended
}

func BenchmarkGuard(b *testing.B) {
	data := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if err := memfault.Guard(memfault.Within(data), func() { data[0]++ }); err != nil {
			b.Fatal(err)
		}
	}
}
