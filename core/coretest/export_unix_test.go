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
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{5000}, core.AllocOptions{Export: core.HandleOpaqueFD, HostVisible: true})
	must(t, err)
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
		if _, err := c.d.ImportMemory(t.Context(), bad); !errors.Is(err, c.want) {
			t.Errorf("an import %s gives %v, want %v", c.name, err, c.want)
		}
	}
	fd := FD(t, m.Handle)
	again, err := d.ImportMemory(t.Context(), m)
	must(t, err)
	defer again.Free()
	if _, err := d.ImportMemory(t.Context(), m); !errors.Is(err, core.ErrClosed) {
		t.Errorf("an import of an empty handle: %v", err)
	}
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
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{1}, core.AllocOptions{Export: core.HandleOpaqueFD})
	must(t, err)
	defer x.Close()
	kept, err := d.ExportMemory(bufferOf(t, x), core.HandleOpaqueFD)
	must(t, err)
	for range 10 * fewExports {
		m, err := d.ExportMemory(bufferOf(t, x), core.HandleOpaqueFD)
		must(t, err, m.Close())
	}
	if n := len(exported.list); n > 3*fewExports {
		t.Errorf("%d exports are kept", n)
	}
	again, err := d.ImportMemory(t.Context(), kept)
	must(t, err)
	again.Free()
}

func TestExportRefuses(t *testing.T) {
	d := openOpaque(t, NewBackend(Options{Opaque: true}), 0).(*Device)
	plain := fresh(t, d, 1)
	b := bufferOf(t, plain)
	must(t, plain.Close())
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
		if _, err := d.ExportMemory(c.b, c.as); !errors.Is(err, c.want) {
			t.Errorf("an export %s gives %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := d.Alloc(t.Context(), -1, core.AllocOptions{Export: core.HandleOpaqueFD}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a negative size for export: %v", err)
	}
}
