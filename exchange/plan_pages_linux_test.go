package exchange_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// mappedFile is a mapped file as another library hands it over: dlx knows that the tensor is read-only, and not whether the
// host can write the memory. If sized is false, it does not know how large the memory is, either, as of a tensor that came by
// DLPack.
func mappedFile(t *testing.T, access int, sized bool) *core.Tensor {
	t.Helper()
	size := 4 * os.Getpagesize()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "mapped"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	pages, err := syscall.Mmap(int(f.Fd()), 0, size, access, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	unmap := core.FreeFunc(func() { _ = syscall.Munmap(pages) })
	m := core.Memory{ID: core.CPU, Handle: uintptr(unsafe.Pointer(&pages[0])), Size: int64(size), Owner: unmap}
	if !sized {
		m.Size = core.UnknownSize
	}
	x, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{int64(size)}, Flags: core.FlagReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// A plan for a mapped file is what To does, whether the host can write it or not.
func TestPlanOfAMappedFileIsTheMove(t *testing.T) {
	devices := openAll(t, 1)
	for name, c := range map[string]struct {
		access int
		sized  bool
	}{
		"read-only":                  {syscall.PROT_READ, true},
		"writable":                   {syscall.PROT_READ | syscall.PROT_WRITE, true},
		"read-only, of unknown size": {syscall.PROT_READ, false},
		"writable, of unknown size":  {syscall.PROT_READ | syscall.PROT_WRITE, false},
	} {
		for _, d := range devices {
			for _, mode := range []exchange.Copy{exchange.IfNeeded, exchange.Never, exchange.Always} {
				t.Run(fmt.Sprintf("%s to %v, %v", name, d.ID(), mode), func(t *testing.T) {
					x := mappedFile(t, c.access, c.sized)
					route, planned := exchange.Plan(x, d, exchange.Options{Copy: mode})
					got, report, moved := exchange.To(t.Context(), x, d, exchange.Options{Copy: mode})
					if moved == nil {
						_ = got.Close()
					}
					var none *exchange.NoWayError
					switch {
					case (planned == nil) != (moved == nil) || moved != nil && !errors.As(moved, &none):
						t.Errorf("Plan: %v; To: %v", planned, moved)
					case planned == nil && route.Mechanism != report.Mechanism && !refusedByDriver(report):
						t.Errorf("planned %v, moved by %v: %+v", route.Mechanism, report.Mechanism, report.Refused())
					}
				})
			}
		}
	}
}

// A device that learns from its driver alone that the host cannot write memory fails with the driver's status. The report
// then has the reason, as the plan has, and not the status. A status without a known reason stays.
func TestAReportHasTheReasonAndNotTheStatus(t *testing.T) {
	const reason, status = "the device maps only memory that the host can write", "fake: MapHost: invalid argument"
	b, _ := newFakes(t, mapHost, 0)
	b.fail("MapHost", core.ErrInvalid)
	b.refuses = func(m core.Memory) error {
		if m.ReadOnly {
			return core.Errorf(core.ErrReadOnly, "fake", "MapHost", reason)
		}
		return nil
	}
	for _, c := range []struct {
		name         string
		access       int
		want, reason string
	}{
		{"read-only", syscall.PROT_READ, reason, reason},
		{"writable", syscall.PROT_READ | syscall.PROT_WRITE, status, ""},
	} {
		for _, sized := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sized: %t", c.name, sized), func(t *testing.T) {
				x := mappedFile(t, c.access, sized)
				route, err := exchange.Plan(x, b, exchange.Options{})
				if err != nil || !strings.Contains(route.String(), c.reason) || strings.Contains(route.String(), status) {
					t.Errorf("planned %v, %v", route, err)
				}
				_, report := to(t, x, b, exchange.Options{})
				check(t, report, x.NumBytes(), way{exchange.Direct, 1, "copies from cpu", c.want})
				if c.want == reason && strings.Contains(report.String(), status) {
					t.Errorf("the report has the status: %v", report)
				}
				_, _, err = exchange.To(t.Context(), x, b, exchange.Options{Copy: exchange.Never})
				wantNoWay(t, err, c.want)
				if !errors.Is(err, core.ErrInvalid) {
					t.Errorf("the error does not wrap what the device returned: %v", err)
				}
			})
		}
	}
}
