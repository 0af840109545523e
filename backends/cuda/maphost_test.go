//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// CU_MEMHOSTREGISTER_READ_ONLY: "this flag is required in order to register memory mapped to the CPU as read-only", and
// fails where CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED is 0.
func TestMemoryThatTheHostCannotWrite(t *testing.T) {
	simulator(t)
	if os.Getenv(integratedVariable) != "1" {
		defer coretest.Child(t, t.Name(), integratedVariable+"=1", readOnlyVariable+"=0")(t)
		coretest.Child(t, t.Name(), integratedVariable+"=1", readOnlyVariable+"=1")(t)
		return
	}
	supported := os.Getenv(readOnlyVariable) == "1"
	d := open(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	data, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	copy(data, coretest.Pattern(len(data), 1))
	if err := unix.Mprotect(data, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	spec := core.Spec{DType: core.TypeUint8, Shape: []int64{int64(len(data))}}
	for _, marked := range []bool{true, false} { // MapHost finds out about memory that is not marked
		m := core.Memory{ID: core.CPU, Handle: uintptr(unsafe.Pointer(&data[0])), Size: int64(len(data)), ReadOnly: marked}
		flagged := spec
		flagged.Flags = core.FlagReadOnly
		host := coretest.Keep(t)(core.Wrap(m, flagged))
		b, err := host.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		mapper := d.(core.HostMapper)
		if marked && !supported {
			coretest.WantError(t, mapper.CanMap(m), core.ErrReadOnly, "CanMap")
		}
		mapped, err := mapper.MapHost(t.Context(), b)
		if !supported {
			coretest.WantError(t, err, core.ErrReadOnly, "MapHost")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		x, err := core.Wrap(mapped, spec)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(coretest.Get(t, d, x), data) {
			t.Error("the device sees other bytes")
		}
		coretest.WantError(t, d.Copy(t.Context(), nil, x, coretest.Row(t, d, int64(len(data)), core.AllocOptions{})), core.ErrReadOnly, "a copy into it")
		_ = x.Close()
	}
	// A writable page is mapped as one, whatever the driver supports.
	if err := unix.Mprotect(data, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	host := coretest.Keep(t)(core.FromSlice(data))
	b, err := host.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := d.(core.HostMapper).MapHost(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	x := coretest.Keep(t)(core.Wrap(mapped, spec))
	coretest.Put(t, d, x, coretest.Pattern(len(data), 2))
	if !bytes.Equal(data, coretest.Pattern(len(data), 2)) {
		t.Error("the host sees other bytes than the device wrote")
	}
	_ = x.Close()
}
