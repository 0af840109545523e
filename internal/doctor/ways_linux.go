package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addressOf returns the address of mapped memory.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// tryHost tries the ways that need no device.
func (s *session) tryHost(ctx context.Context) {
	s.try(ctx, Finding{Way: "descriptor over a socket (SCM_RIGHTS)"}, func() error { return s.passPipe(ctx) }, s.whyPassed)
	s.try(ctx, Finding{Way: "memfd over a socket", Host: true, ZeroCopy: true}, func() error { return s.passMemFD(ctx) }, s.whyPassed)
	s.try(ctx, Finding{Way: "POSIX shared memory (shm_open)", Host: true, ZeroCopy: true}, func() error { return s.shareByName(ctx) }, s.whyShm)
	s.try(ctx, Finding{Way: "System V shared memory (shmget)", Host: true, ZeroCopy: true}, func() error { return s.shareByNumber(ctx) }, s.whySysV)
	s.try(ctx, Finding{Way: "pidfd_getfd by this process", Host: true, ZeroCopy: true}, func() error { return s.getHere(ctx) }, s.whyHere)
	s.try(ctx, Finding{Way: "pidfd_getfd by the other process", Host: true, ZeroCopy: true}, func() error { return s.getThere(ctx) }, s.whyThere)
	s.try(ctx, Finding{Way: "process_vm_readv by this process", Host: true}, func() error { return s.readHere(ctx) }, s.whyHere)
	s.try(ctx, Finding{Way: "process_vm_readv by the other process", Host: true}, func() error { return s.readThere(ctx) }, s.whyThere)
	s.try(ctx, Finding{Way: "dma-buf of host memory (udmabuf)", Host: true, ZeroCopy: true}, func() error { return s.passUDMABuf(ctx) }, s.whyUDMABuf)
}

// passPipe passes an end of a pipe.
func (s *session) passPipe(ctx context.Context) error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	defer closeFD(p[0])
	n := seed()
	_, err := unix.Write(p[1], pattern(n)) // a pipe holds a page
	_ = unix.Close(p[1])
	if err != nil {
		return os.NewSyscallError("write", err)
	}
	_, err = s.ask(ctx, message{Do: "pipe", Seed: n}, p[0])
	return err
}

// passMemFD passes a memfd.
func (s *session) passMemFD(ctx context.Context) error {
	n := seed()
	fd, b, err := newMemFD(n)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	defer func() { _ = unix.Munmap(b) }()
	if _, err := s.ask(ctx, message{Do: "map", Seed: n}, fd); err != nil {
		return err
	}
	return answered(b, n)
}

// udmabufCreate is the argument of UDMABUF_CREATE.
type udmabufCreate struct {
	memfd, flags uint32
	offset, size uint64
}

const (
	ioctlUDMABufCreate = 0x40187542 // _IOW('u', 0x42, struct udmabuf_create)
	udmabufCloexec     = 1
)

// passUDMABuf makes a dma-buf of a memfd, and passes it.
func (s *session) passUDMABuf(ctx context.Context) error {
	device, err := unix.Open("/dev/udmabuf", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer closeFD(device)
	n := seed()
	fd, b, err := newMemFD(n)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	defer func() { _ = unix.Munmap(b) }()
	request := udmabufCreate{memfd: uint32(fd), flags: udmabufCloexec, size: uint64(len(b))}
	made, _, number := unix.Syscall(unix.SYS_IOCTL, uintptr(device), ioctlUDMABufCreate, uintptr(unsafe.Pointer(&request)))
	if number != 0 {
		return os.NewSyscallError("ioctl(UDMABUF_CREATE)", number)
	}
	defer closeFD(int(made))
	if _, err := s.ask(ctx, message{Do: "map", Seed: n}, int(made)); err != nil {
		return err
	}
	return answered(b, n)
}

// shareByName makes a file in /dev/shm.
func (s *session) shareByName(ctx context.Context) error {
	n := seed()
	name := fmt.Sprintf("dlx-doctor-%016x", seed())
	path := filepath.Join("/dev/shm", name)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return &failure{Call: "shm_open here", Code: numberOf(err), Text: "shm_open: " + err.Error()}
	}
	defer closeFD(fd)
	defer func() { _ = os.Remove(path) }()
	if _, err := unix.Write(fd, pattern(n)); err != nil { // a store into mapped memory would end the process if there is no room
		return &failure{Call: "write to /dev/shm", Code: numberOf(err), Text: "write to /dev/shm: " + err.Error()}
	}
	b, err := mapped(fd)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(b) }()
	if _, err := s.ask(ctx, message{Do: "shm", Name: name, Seed: n}, -1); err != nil {
		return err
	}
	return answered(b, n)
}

func numberOf(err error) int64 {
	var number unix.Errno
	errors.As(err, &number)
	return int64(number)
}

// shareByNumber makes memory of System V.
func (s *session) shareByNumber(ctx context.Context) error {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
	if err != nil {
		return os.NewSyscallError("shmget", err)
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	// From here on the memory ends with its last user; Linux lets others attach it nevertheless.
	_, removed := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if err != nil {
		return os.NewSyscallError("shmat here", err)
	}
	defer func() { _ = unix.SysvShmDetach(b) }()
	if removed != nil {
		return os.NewSyscallError("shmctl(IPC_RMID)", removed)
	}
	n := seed()
	copy(b, pattern(n))
	if _, err := s.ask(ctx, message{Do: "sysv", Number: id, Seed: n}, -1); err != nil {
		return err
	}
	return answered(b[:size], n)
}

// getHere duplicates a descriptor of the other process.
func (s *session) getHere(ctx context.Context) error {
	if s.theirs.PID <= 0 {
		return noNumber("pidfd_open")
	}
	n := seed()
	a, err := s.ask(ctx, message{Do: "offer", Seed: n}, -1)
	if err != nil {
		return err
	}
	if err := exchangeGot(s.theirs.PID, a.Number, n); err != nil {
		return err
	}
	_, err = s.ask(ctx, message{Do: "check", Seed: n}, -1)
	return err
}

// getThere lets the other process duplicate a descriptor.
func (s *session) getThere(ctx context.Context) error {
	n := seed()
	fd, b, err := newMemFD(n)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	defer func() { _ = unix.Munmap(b) }()
	if _, err := s.ask(ctx, message{Do: "get", Number: fd, Seed: n}, -1); err != nil {
		return err
	}
	return answered(b, n)
}

// readHere reads memory of the other process.
func (s *session) readHere(ctx context.Context) error {
	if s.theirs.PID <= 0 {
		return noNumber("process_vm_readv")
	}
	n := seed()
	a, err := s.ask(ctx, message{Do: "offer", Seed: n}, -1)
	if err != nil {
		return err
	}
	b := make([]byte, size)
	if err := readProcess(s.theirs.PID, a.Address, b); err != nil {
		return err
	}
	return same(b, pattern(n))
}

// readThere lets the other process read memory.
func (s *session) readThere(ctx context.Context) error {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	defer func() { _ = unix.Munmap(b) }()
	n := seed()
	copy(b, pattern(n))
	_, err = s.ask(ctx, message{Do: "read", Address: addressOf(b), Seed: n}, -1)
	return err
}

// noNumber is the error of a call that needs the number of a process which has none here.
func noNumber(call string) error {
	return &failure{Call: call, Code: int64(unix.ESRCH), Text: "the other process has no number in the PID namespace of this one"}
}

// whyHere explains that this process cannot look into the other one, and whyThere the opposite.
func (s *session) whyHere(f *failure) cause { return whyTrace(f, &s.mine, &s.theirs, true) }

func (s *session) whyThere(f *failure) cause { return whyTrace(f, &s.theirs, &s.mine, false) }

// whyPassed explains that a descriptor did not arrive.
func (s *session) whyPassed(f *failure) cause {
	switch unix.Errno(f.Code) {
	case unix.ETOOMANYREFS:
		return sure("let the other process receive descriptors first, or raise the limit of open files", "too many descriptors of this user are on their way")
	case unix.EMFILE, unix.ENFILE:
		return sure("raise the limit of open files (ulimit -n)", "no descriptor is left: the limits are %d here and %d there", s.mine.Files, s.theirs.Files)
	case unix.EPERM, unix.EACCES:
		if f.Self == 0 && (s.mine.Label != "" || s.theirs.Label != "") {
			return probable("look into the log of the security module (dmesg)", "a security module may refuse the file: the labels are %q and %q", s.mine.Label, s.theirs.Label)
		}
	case unix.ENOSYS:
		return probable("use a newer kernel, or permit the call in the seccomp profile", "the kernel does not know the call, or a seccomp filter hides it")
	}
	return cause{}
}

// whyShm explains that memory cannot be shared by a name.
func (s *session) whyShm(f *failure) cause {
	const remedy = "mount one folder at /dev/shm of both: docker --ipc=container:NAME with --ipc=shareable, in Kubernetes an emptyDir of medium Memory in both containers"
	switch here := f.Call == "shm_open here" || f.Call == "write to /dev/shm"; unix.Errno(f.Code) {
	case unix.ENOSPC:
		return sure("make /dev/shm larger: docker --shm-size=1g, in Kubernetes an emptyDir of medium Memory", "/dev/shm is full: it has %d bytes, %d are free", s.mine.ShmBytes, s.mine.ShmFree)
	case unix.ENOENT:
		switch {
		case here:
			return sure("mount a tmpfs at /dev/shm", "there is no /dev/shm")
		case s.mine.Shm != "" && s.theirs.Shm != "" && s.mine.Shm != s.theirs.Shm:
			return sure(remedy, "the processes see different file systems at /dev/shm (%s here, %s there)", s.mine.Shm, s.theirs.Shm)
		case apart(&s.mine, &s.theirs, "mnt"):
			return probable(remedy, "the processes are in different mount namespaces, and seem to see different folders at /dev/shm")
		}
	case unix.EROFS:
		return sure("mount a tmpfs at /dev/shm", "/dev/shm can only be read")
	case unix.EACCES, unix.EPERM:
		if !here && s.mine.UID != s.theirs.UID {
			return sure("run both as the same user, or make the memory with permissions for both", "the memory belongs to user %d, and the other process runs as user %d", s.mine.UID, s.theirs.UID)
		}
		if apart(&s.mine, &s.theirs, "user") {
			return probable("use one user namespace for both", "the processes are in different user namespaces")
		}
	}
	return cause{}
}

// whySysV explains that memory of System V cannot be shared.
func (s *session) whySysV(f *failure) cause {
	switch separate := apart(&s.mine, &s.theirs, "ipc"); {
	case separate && (f.Code == 0 || unix.Errno(f.Code) == unix.EINVAL || unix.Errno(f.Code) == unix.EACCES || unix.Errno(f.Code) == unix.EIDRM):
		return sure("use one IPC namespace for both: docker --ipc=container:NAME, in Kubernetes containers of one pod have that",
			"the processes are in different IPC namespaces (%s here, %s there)", s.mine.Namespaces["ipc"], s.theirs.Namespaces["ipc"])
	case unix.Errno(f.Code) == unix.EACCES && s.mine.UID != s.theirs.UID:
		return sure("run both as the same user, or make the memory with permissions for both", "the memory belongs to user %d, and the other process runs as user %d", s.mine.UID, s.theirs.UID)
	case unix.Errno(f.Code) == unix.EACCES && apart(&s.mine, &s.theirs, "user"):
		return probable("use one user namespace for both", "the processes are in different user namespaces")
	case unix.Errno(f.Code) == unix.ENOSPC:
		return sure("raise kernel.shmmni or kernel.shmall", "the limits of System V shared memory are reached")
	case unix.Errno(f.Code) == unix.ENOSYS, unix.Errno(f.Code) == unix.EPERM:
		return probable("permit the calls of System V shared memory in the seccomp profile", "the kernel lacks System V shared memory, or a seccomp filter refuses it")
	}
	return cause{}
}

// whyUDMABuf explains that no dma-buf can be made of host memory.
func (s *session) whyUDMABuf(f *failure) cause {
	switch number := unix.Errno(f.Code); {
	case f.Call == "open" && (number == unix.ENOENT || number == unix.ENXIO || number == unix.ENODEV):
		return sure("load the kernel's module (modprobe udmabuf), and pass the device to the container: docker --device /dev/udmabuf", "there is no /dev/udmabuf")
	case f.Call == "open" && (number == unix.EACCES || number == unix.EPERM):
		return sure("add the user to the group of /dev/udmabuf (kvm in many systems), and pass the device to the container", "user %d may not open /dev/udmabuf", s.mine.UID)
	}
	return s.whyPassed(f)
}
