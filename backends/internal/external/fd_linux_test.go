package external_test

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// file returns a memory file of size bytes that begins with words. The test closes it.
func file(t *testing.T, size int64, words ...uint64) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	var head []byte
	for _, w := range words {
		head = binary.NativeEndian.AppendUint64(head, w)
	}
	if _, err := unix.Pwrite(fd, head, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	return fd
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// driverKind is what the opaque descriptors of a driver are.
type driverKind int

const (
	card  driverKind = iota
	heads            // files with a head
	files            // files with nothing but the memory
)

func TestCheckFD(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	device, err := os.Open(os.DevNull) // what stands for memory of a GPU is no file either
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for _, c := range []struct {
		rule string
		of   driverKind
		kind core.HandleType
		fd   int
		size int64
		want error
	}{
		{"a file that is long enough", card, core.HandleOpaqueFD, file(t, 4096), 4096, nil},
		{"a file that is short", card, core.HandleOpaqueFD, file(t, 4096), 4097, core.ErrInvalid},
		{"a descriptor that tells no size", card, core.HandleOpaqueFD, int(device.Fd()), 4096, nil},
		{"a pipe", card, core.HandleOpaqueFD, int(r.Fd()), 0, core.ErrInvalid},
		{"a folder", card, core.HandleDMABuf, int(folder.Fd()), 0, core.ErrInvalid},
		{"no descriptor", card, core.HandleOpaqueFD, -1, 0, core.ErrInvalid},
		{"a closed descriptor", card, core.HandleOpaqueFD, 1 << 20, 0, core.ErrInvalid},
		{"a device, for a driver that reads", heads, core.HandleOpaqueFD, int(device.Fd()), 0, core.ErrInvalid},
		{"a dma-buf, for a driver that reads", heads, core.HandleDMABuf, int(device.Fd()), 4096, nil},
		{"a head that tells the truth", heads, core.HandleOpaqueFD, file(t, 8192, 8192, 4096), 4096, nil},
		{"a head that leaves less", heads, core.HandleOpaqueFD, file(t, 8192, 8192, 4096), 4097, core.ErrInvalid},
		{"a head that claims more than the file has", heads, core.HandleOpaqueFD, file(t, 8192, 1<<30, 4096), 4096, core.ErrInvalid},
		{"a head whose memory begins beyond the end", heads, core.HandleOpaqueFD, file(t, 8192, 8192, 1<<63), 1, core.ErrInvalid},
		{"a file without a head", heads, core.HandleOpaqueFD, file(t, 8), 9, core.ErrInvalid},
		{"a device, for a driver of plain files", files, core.HandleOpaqueFD, int(device.Fd()), 0, core.ErrInvalid},
		{"a plain file that is long enough", files, core.HandleOpaqueFD, file(t, 4096), 4096, nil},
		{"a plain file that is short", files, core.HandleOpaqueFD, file(t, 4096), 4097, core.ErrInvalid},
		{"a plain file that begins like a head", files, core.HandleOpaqueFD, file(t, 8192, 1<<30, 4096), 8192, nil},
		{"a semaphore", heads, core.HandleOpaqueFD, file(t, 64), 0, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			i := importer
			i.Software, i.Files = c.of == heads, c.of == files
			wantError(t, i.CheckFD("ImportMemory", c.kind, c.fd, c.size), c.want)
		})
	}
}

func TestADescriptorHasOneOwner(t *testing.T) {
	refused := errors.New("the driver refuses")
	for _, c := range []struct {
		rule  string
		taken bool
		err   error
	}{
		{"the driver owns what it took", true, nil},
		{"the driver has its own", false, nil},
		{"the driver refuses", false, refused},
		{"what comes after the driver fails", true, refused},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h, given := coretest.HandleOf(t, core.HandleOpaqueFD, file(t, 1)), -1
			fd := coretest.FD(t, h)
			err := importer.Give("ImportMemory", h, func(own int) (bool, error) {
				given = own
				return c.taken, c.err
			})
			if err != c.err || given == fd {
				t.Fatalf("error %v, given %d of %d", err, given, fd)
			}
			if isOpen(fd) == (err == nil) {
				t.Errorf("the caller's is open: %v", isOpen(fd))
			}
			if isOpen(given) != c.taken {
				t.Errorf("the duplicate is open: %v", isOpen(given))
			}
			if c.taken {
				_ = unix.Close(given)
			}
		})
	}
	for h, want := range map[*core.Handle]error{
		nil: core.ErrInvalid, coretest.DeadHandle(t, core.HandleMemFD): core.ErrInvalid, ipc(t, core.VendorAMD): core.ErrInvalid,
	} {
		err := importer.Give("ImportMemory", h, func(int) (bool, error) { t.Error("called"); return false, nil })
		wantError(t, err, want)
	}
}

func TestWhatIsExportedIsOwnedByItsHandle(t *testing.T) {
	fd, err := unix.Dup(file(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	h, err := external.Export(core.HandleOpaqueFD, fd)
	if err != nil || coretest.FD(t, h) != fd || h.Close() != nil || isOpen(fd) {
		t.Errorf("%v of descriptor %d, which is open: %v; error %v", h, fd, isOpen(fd), err)
	}
	if fd, err = unix.Dup(file(t, 1)); err != nil {
		t.Fatal(err)
	}
	if h, err := external.Export(core.HandleIPC, fd); h != nil || !errors.Is(err, core.ErrInvalid) || isOpen(fd) {
		t.Errorf("%v, error %v; the descriptor is open: %v", h, err, isOpen(fd))
	}
}

// A memfd is not a dma-buf; as an opaque descriptor it may be whatever the driver says.
func TestAMemfdIsNotADMABuf(t *testing.T) {
	fd, err := unix.MemfdCreate("exported", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := external.CheckExported("vulkan", "vkGetMemoryFdKHR", core.HandleDMABuf, fd); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("error %v, want %q", err, core.ErrNotSupported)
	}
	if err := external.CheckExported("vulkan", "vkGetMemoryFdKHR", core.HandleOpaqueFD, fd); err != nil {
		t.Error(err)
	}
	device, err := unix.Open("/dev/zero", unix.O_RDWR, 0) // without seals, as a dma-buf
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(device)
	if err := external.CheckExported("vulkan", "vkGetMemoryFdKHR", core.HandleDMABuf, device); err != nil {
		t.Error(err)
	}
}
