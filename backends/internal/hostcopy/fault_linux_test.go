package hostcopy

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
)

// truncated is the memory of a mapped file of which the second half is gone.
func truncated(t *testing.T, size int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(data) })
	if err := os.Truncate(path, int64(size/2)); err != nil {
		t.Fatal(err)
	}
	return data
}

// Memory that is gone is an error, whoever of the workers meets it, and on either
// side.
func TestMemoryThatIsGoneIsAnError(t *testing.T) {
	const size = 2 * minRunShare
	whole, gone := make([]byte, size), truncated(t, size)
	matrix, err := core.NewLayout(1<<11, size>>13)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := matrix.Permute(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := core.NewLayout(columns.Shape()...)
	if err != nil {
		t.Fatal(err)
	}
	end := copyplan.Copy{Elem: 100, Dst: size - 100, Src: size - 100}
	copies := map[string]func(dst, src unsafe.Pointer, workers int) error{
		"contiguous": func(dst, src unsafe.Pointer, workers int) error { return Contiguous(dst, src, size, workers) },
		"contiguous, divided": func(dst, src unsafe.Pointer, workers int) error {
			return contiguous(inPieces, dst, src, size, workers)
		},
		"transposed, divided": func(dst, src unsafe.Pointer, workers int) error {
			return divided(dst, src, copyplan.New(4, rows, columns), workers)
		},
		"transposed": func(dst, src unsafe.Pointer, workers int) error {
			return Copy(dst, src, copyplan.New(4, rows, columns), workers)
		},
		"the last bytes": func(dst, src unsafe.Pointer, workers int) error { return Copy(dst, src, end, workers) },
		"bits": func(dst, src unsafe.Pointer, _ int) error {
			const bits = 8 << 16 // no more: under the race detector each byte takes its time
			return CopyBits(dst, src, copyplan.Copy{Elem: bits - 8, Dst: 8*size - bits + 3, Src: 8*size - bits + 5}, 1)
		},
		"the last bit": func(dst, src unsafe.Pointer, _ int) error {
			return CopyBits(dst, src, copyplan.Copy{Elem: 1, Dst: 8*size - 1, Src: 8*size - 1}, 1)
		},
	}
	for name, f := range copies {
		for _, workers := range []int{1, 2, 4} {
			for _, c := range []struct {
				side     string
				dst, src []byte
			}{{"src", whole, gone}, {"dst", gone, whole}} {
				err := f(unsafe.Pointer(&c.dst[0]), unsafe.Pointer(&c.src[0]), workers)
				var typed *core.Error
				if !errors.As(err, &typed) || !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "truncated") {
					t.Errorf("%s, %d workers, %s is gone: %v", name, workers, c.side, err)
				}
			}
			if err := f(unsafe.Pointer(&whole[0]), unsafe.Pointer(&make([]byte, size)[0]), workers); err != nil {
				t.Errorf("%s, %d workers: %v", name, workers, err)
			}
		}
	}
	half := size / 2
	if err := Contiguous(unsafe.Pointer(&whole[0]), unsafe.Pointer(&gone[0]), int64(half), 4); err != nil {
		t.Errorf("what is still there: %v", err)
	}
	runtime.KeepAlive(whole)
}

// A fault at an address that the copy does not reach is a mistake, and no error.
func TestOtherFaultsAreNotTakenForThose(t *testing.T) {
	gone, whole := truncated(t, 1<<20), make([]byte, 64)
	defer func() {
		if r, ok := recover().(runtime.Error); !ok {
			t.Errorf("the fault was swallowed: %v", r)
		}
	}()
	p := unsafe.Pointer(&whole[0])
	_ = guarded(p, p, 8, copyplan.Copy{Elem: 64}, func() { runtime.KeepAlive(gone[1<<20-1]) })
}
