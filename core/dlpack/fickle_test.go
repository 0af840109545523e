//go:build cgo && !windows

package dlpack_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
)

// fickleImports is enough for each check to be overtaken, on two processors.
const fickleImports = 100_000

// A producer that changes its struct while that is imported gets an error or a
// tensor, and its deleter is called once.
func TestAProducerThatChangesItsStructMeanwhile(t *testing.T) {
	for _, s := range []struct {
		name string
		take func(hostile.Fickle) (*core.Tensor, error)
	}{
		{"versioned", func(f hostile.Fickle) (*core.Tensor, error) {
			return dlpack.Import(f.Versioned(), dlpack.ImportOptions{Size: 64})
		}},
		{"legacy", func(f hostile.Fickle) (*core.Tensor, error) {
			return dlpack.ImportLegacy(f.Legacy(), dlpack.ImportOptions{Size: 64})
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			f := hostile.NewFickle(memory())
			defer f.Close()
			taken, imports := int64(0), int64(0)
			// On a busy machine the thread that changes the struct may not run for a while.
			for end := time.Now().Add(30 * time.Second); imports < fickleImports || (taken == 0 || taken == imports) && time.Now().Before(end); imports++ {
				tensor, err := takeFickle(f, s.take)
				if err == nil {
					taken++
					closeTensor(t, tensor)
					checkConsistent(t, tensor)
				} else if typed := new(core.Error); !errors.As(err, &typed) {
					t.Fatalf("import %d: untyped error %v", imports, err)
				}
				if n := f.Deleted(); n != imports+1 {
					t.Fatalf("after %d imports the deleter was called %d times; the last one: %v", imports+1, n, err)
				}
			}
			if taken == 0 || taken == imports {
				t.Errorf("%d of %d imports succeeded: the struct did not change", taken, imports)
			}
			f.DropDeleter()
			for range fickleImports {
				if tensor, err := s.take(f); err == nil {
					closeTensor(t, tensor)
				}
			}
			if n := f.Deleted(); n > imports+fickleImports {
				t.Errorf("%d imports called the deleter %d times", imports+fickleImports, n)
			}
		})
	}
}

// takeFickle imports, and makes an error of a panic.
func takeFickle(f hostile.Fickle, take func(hostile.Fickle) (*core.Tensor, error)) (tensor *core.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return take(f)
}

// checkConsistent fails the test if a tensor says one thing in one place and
// another in a second one, or reaches beyond its 64 bytes.
func checkConsistent(t *testing.T, tensor *core.Tensor) {
	t.Helper()
	l := tensor.Layout()
	again, err := core.NewStridedLayout(l.Shape(), l.Strides())
	if err != nil || !again.Equal(l) {
		t.Fatalf("%v: %v", tensor, err)
	}
	low, high := l.Extent()
	if first, last := tensor.Offset()+4*low, tensor.Offset()+4*high; high > low && (first < 0 || last > 64) {
		t.Fatalf("%v reaches from byte %d to %d", tensor, first, last)
	}
	given := func(stride int64) bool { return stride == hostile.FickleStride || stride == math.MaxInt64 }
	if strides := l.Strides(); !l.IsContiguous() && slices.ContainsFunc(strides, func(s int64) bool { return !given(s) }) {
		t.Fatalf("%v: strides that nobody gave", tensor)
	}
}
