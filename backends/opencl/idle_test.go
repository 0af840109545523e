//go:build opencl && linux && cgo

package opencl_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestAnIdlePoolReturnsItsMemory(t *testing.T) {
	d := device(t)
	m, err := d.Alloc(t.Context(), 1<<20, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.Free()
	pool, periods := d.(core.PoolController), d.(interface{ Tick() }) // what the timer calls
	if periods.Tick(); pool.PoolStats().Cached != 1<<20 {
		t.Errorf("%+v: memory is returned in the period in which it was used", pool.PoolStats())
	}
	if periods.Tick(); pool.PoolStats().Cached != 0 {
		t.Errorf("%+v: nobody uses what is kept", pool.PoolStats())
	}
}
