//go:build unix

package coretest

import (
	"errors"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestExportedMemoryOutlivesItsBufferAndIsImportedAsItWas(t *testing.T) {
	b := NewBackend(Options{Opaque: true})
	d := openOpaque(t, b, 0).(*Device)
	x := Row(t, d, 5000, core.AllocOptions{Export: core.HandleOpaqueFD, HostVisible: true})
	m, err := d.ExportMemory(bufferOf(t, x), core.HandleOpaqueFD)
	must(t, err)
	if p := d.Properties(); m.Size != 2*page || m.Length != 5000 || m.DeviceUUID != p.UUID || m.DriverUUID != p.DriverUUID {
		t.Errorf("exported %+v", m)
	}
	must(t, x.Close())
	other := openOpaque(t, b, 1).(*Device)
	for _, c := range []struct {
		name   string
		d      *Device
		change func(*core.ExternalMemory)
		want   error
	}{
		{"by another device", other, func(*core.ExternalMemory) {}, core.ErrDevice},
		{"as another type", d, func(m *core.ExternalMemory) { m.Handle = HandleOf(t, core.HandleMemFD, FD(t, m.Handle)) }, core.ErrNotSupported},
		{"of another size", d, func(m *core.ExternalMemory) { m.Size += page }, core.ErrInvalid},
		{"beyond its end", d, func(m *core.ExternalMemory) { m.Offset = m.Size }, core.ErrInvalid},
		{"of another memory type", d, func(m *core.ExternalMemory) { m.MemoryType++ }, core.ErrInvalid},
		{"as if it were shared", d, func(m *core.ExternalMemory) { m.Dedicated = false }, core.ErrInvalid},
		{"without a handle", d, func(m *core.ExternalMemory) { m.Handle = nil }, core.ErrNotSupported},
		{"of a closed descriptor", d, func(m *core.ExternalMemory) { m.Handle = DeadHandle(t, core.HandleOpaqueFD) }, core.ErrInvalid},
		{"of a file that is no memory", d, func(m *core.ExternalMemory) { m.Handle = HandleOf(t, core.HandleOpaqueFD, 0) }, core.ErrInvalid},
	} {
		bad := m
		c.change(&bad)
		WantError(t, errOf(c.d.ImportMemory(t.Context(), bad)), c.want, "an import "+c.name)
	}
	fd := FD(t, m.Handle)
	again, err := d.ImportMemory(t.Context(), m)
	must(t, err)
	defer again.Free()
	WantError(t, errOf(d.ImportMemory(t.Context(), m)), core.ErrClosed, "an import of an empty handle")
	if _, err := fileOf(fd); !errors.Is(err, syscall.EBADF) {
		t.Errorf("the descriptor after the import: %v", err)
	}
	imported, ok := d.backend.objects.find(again.Handle)
	if !ok || again.Size != 5000 || *at(imported.address, 4999) != poisonFresh {
		t.Errorf("imported %+v", again)
	}
}

func TestExportedMemoryIsForgottenWhenItsDescriptorsAreClosed(t *testing.T) {
	d := openOpaque(t, NewBackend(Options{Opaque: true}), 0).(*Device)
	x := Row(t, d, 1, core.AllocOptions{Export: core.HandleOpaqueFD})
	kept, err := d.ExportMemory(bufferOf(t, x), core.HandleOpaqueFD)
	must(t, err)
	for range 10 * fewExports {
		must(t, closed(d.ExportMemory(bufferOf(t, x), core.HandleOpaqueFD)))
	}
	if n := len(exported.list); n > 3*fewExports {
		t.Errorf("%d exports are kept", n)
	}
	must(t, freed(d.ImportMemory(t.Context(), kept)))
}

func TestExportRefuses(t *testing.T) {
	d := openOpaque(t, NewBackend(Options{Opaque: true}), 0).(*Device)
	b := goneBuffer(t, fresh(t, d, 1))
	for _, c := range []struct {
		name string
		b    *core.Buffer
		as   core.HandleType
		want error
	}{
		{"as another type", b, core.HandleMemFD, core.ErrNotSupported},
		{"of no buffer", nil, core.HandleOpaqueFD, core.ErrInvalid},
		{"of a closed buffer", b, core.HandleOpaqueFD, core.ErrClosed},
		{"of plain memory", bufferOf(t, fresh(t, d, 1)), core.HandleOpaqueFD, core.ErrInvalid},
		{"of host memory", bufferOf(t, array(t, []int32{1})), core.HandleOpaqueFD, core.ErrInvalid},
	} {
		WantError(t, errOf(d.ExportMemory(c.b, c.as)), c.want, "an export "+c.name)
	}
	WantError(t, errOf(d.Alloc(t.Context(), -1, core.AllocOptions{Export: core.HandleOpaqueFD})), core.ErrInvalid, "a negative size for export")
}
