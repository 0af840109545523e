//go:build cgo && !windows

package dlpack_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

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
		{"versioned", func(f hostile.Fickle) (*core.Tensor, error) { return dlpack.Import(f.Versioned(), dlpack.WithSize(64)) }},
		{"legacy", func(f hostile.Fickle) (*core.Tensor, error) {
			return dlpack.ImportLegacy(f.Legacy(), dlpack.WithSize(64))
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			f := hostile.NewFickle(memory())
			defer f.Close()
			taken := 0
			for i := range int64(fickleImports) {
				tensor, err := takeFickle(f, s.take)
				if err == nil {
					taken++
					closeTensor(t, tensor)
					checkConsistent(t, tensor)
				} else if typed := new(core.Error); !errors.As(err, &typed) {
					t.Fatalf("import %d: untyped error %v", i, err)
				}
				if n := f.Deleted(); n != i+1 {
					t.Fatalf("after %d imports the deleter was called %d times; the last one: %v", i+1, n, err)
				}
			}
			if taken == 0 || taken == fickleImports {
				t.Errorf("%d of %d imports succeeded: the struct did not change", taken, fickleImports)
			}
			f.DropDeleter()
			for range fickleImports {
				if tensor, err := s.take(f); err == nil {
					closeTensor(t, tensor)
				}
			}
			if n := f.Deleted(); n > 2*fickleImports {
				t.Errorf("%d imports called the deleter %d times", 2*fickleImports, n)
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
