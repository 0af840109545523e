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
		rule     string
		software bool
		kind     core.HandleType
		fd       int
		size     int64
		want     error
	}{
		{"a file that is long enough", false, core.HandleOpaqueFD, file(t, 4096), 4096, nil},
		{"a file that is short", false, core.HandleOpaqueFD, file(t, 4096), 4097, core.ErrInvalid},
		{"a descriptor that tells no size", false, core.HandleOpaqueFD, int(device.Fd()), 4096, nil},
		{"a pipe", false, core.HandleOpaqueFD, int(r.Fd()), 0, core.ErrInvalid},
		{"a folder", false, core.HandleDMABuf, int(folder.Fd()), 0, core.ErrInvalid},
		{"no descriptor", false, core.HandleOpaqueFD, -1, 0, core.ErrInvalid},
		{"a closed descriptor", false, core.HandleOpaqueFD, 1 << 20, 0, core.ErrInvalid},
		{"a device, for a driver that reads", true, core.HandleOpaqueFD, int(device.Fd()), 0, core.ErrInvalid},
		{"a dma-buf, for a driver that reads", true, core.HandleDMABuf, int(device.Fd()), 4096, nil},
		{"a head that tells the truth", true, core.HandleOpaqueFD, file(t, 8192, 8192, 4096), 4096, nil},
		{"a head that leaves less", true, core.HandleOpaqueFD, file(t, 8192, 8192, 4096), 4097, core.ErrInvalid},
		{"a head that claims more than the file has", true, core.HandleOpaqueFD, file(t, 8192, 1<<30, 4096), 4096, core.ErrInvalid},
		{"a head whose memory begins beyond the end", true, core.HandleOpaqueFD, file(t, 8192, 8192, 1<<63), 1, core.ErrInvalid},
		{"a file without a head", true, core.HandleOpaqueFD, file(t, 8), 9, core.ErrInvalid},
		{"a semaphore", true, core.HandleOpaqueFD, file(t, 64), 0, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			i := importer
			i.Software = c.software
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
