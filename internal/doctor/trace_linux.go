package doctor

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noFD is a descriptor that no process has: the system checks permissions before it looks for it.
const noFD = 1<<31 - 1

// readProcess reads memory of another process.
func readProcess(pid int, address uint64, b []byte) error {
	local := []unix.Iovec{{Base: unsafe.SliceData(b)}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	runtime.KeepAlive(b)
	if err != nil {
		return traceFailure("process_vm_readv", err, tryReadSelf)
	}
	if n != len(b) {
		return fmt.Errorf("process_vm_readv has read %d bytes of %d", n, len(b))
	}
	return nil
}

// tryReadSelf reads memory of this process as that of another one.
func tryReadSelf() error {
	b := make([]byte, 8)
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(4)
	_, err := unix.ProcessVMReadv(os.Getpid(), local, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b[4])), Len: 4}}, 0)
	runtime.KeepAlive(b)
	return err
}

// getFD duplicates a descriptor of another process. The caller owns the result.
func getFD(pid, number int) (int, error) {
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, traceFailure("pidfd_open", err, func() error {
			own, err := unix.PidfdOpen(os.Getpid(), 0)
			if err == nil {
				_ = unix.Close(own)
			}
			return err
		})
	}
	defer closeFD(p)
	fd, err := unix.PidfdGetfd(p, number, 0)
	if err != nil {
		return -1, traceFailure("pidfd_getfd", err, tryGetSelf)
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

// tryGetSelf duplicates a descriptor of this process as that of another one.
func tryGetSelf() error {
	p, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err
	}
	defer closeFD(p)
	fd, err := unix.PidfdGetfd(p, p, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// traceFailure describes the error of a call, with that of the same call on this process.
func traceFailure(call string, err error, onSelf func() error) error {
	f := newFailure(os.NewSyscallError(call, err))
	if number, ok := onSelf().(unix.Errno); ok { //nolint:errorlint // the calls return this type
		f.Self = int64(number)
	}
	return f
}

// whyTrace explains that a process, tracer, may not use the memory or descriptors of another one.
// mine is set if tracer is this process.
func whyTrace(f *failure, tracer, target *Facts, mine bool) cause {
	me, it := "this process", "the other one"
	if !mine {
		me, it = it, me
	}
	share := "share the PID namespace: docker --pid=container:NAME, in Kubernetes shareProcessNamespace: true. Descriptors that are passed over a socket need no process number"
	switch number := unix.Errno(f.Code); {
	case f.Self == int64(unix.ENOSYS) && tracer.Seccomp != 2:
		return sure("use a newer kernel", "%s does not know the call %s: the kernel is too old, or was built without it", me, f.Call)
	case f.Self != 0 && tracer.Seccomp == 2:
		return sure("permit "+f.Call+" in the seccomp profile of the container; Docker's default profile permits it with --cap-add SYS_PTRACE",
			"%s may not call %s, not even for itself: its seccomp filter refuses that", me, f.Call)
	case f.Self != 0:
		return probable("look for a security module or a sandbox that refuses the call", "%s may not call %s, not even for itself (%v), and has no seccomp filter", me, f.Call, unix.Errno(f.Self))
	case number == unix.ESRCH:
		if apart(tracer, target, "pid") {
			return sure(share, "%s has no number in the PID namespace of %s: %s there, %s here", it, me, target.Namespaces["pid"], tracer.Namespaces["pid"])
		}
		return sure("", "the process has ended")
	case number != unix.EPERM && number != unix.EACCES:
		return cause{}
	}
	return whyRefused(tracer, target, me, it)
}

// capabilityNames are the names of the bits of a set of capabilities.
var capabilityNames = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
	SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
	WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

// capabilities names the first three capabilities of a set, and says how many others there are.
func capabilities(set uint64) string {
	var names []string
	for set != 0 && len(names) < 3 {
		bit := bits.TrailingZeros64(set)
		set &= set - 1
		name := strconv.Itoa(bit)
		if bit < len(capabilityNames) {
			name = capabilityNames[bit]
		}
		names = append(names, "CAP_"+name)
	}
	text := strings.Join(names, ", ")
	if n := bits.OnesCount64(set); n > 0 {
		text += fmt.Sprintf(" and %d others", n)
	}
	return text
}

// whyRefused explains EPERM, by the rules of ptrace(2) in the order in which the system applies
// them.
func whyRefused(tracer, target *Facts, me, it string) cause {
	const remedy = "run both as the same user, or give %s CAP_SYS_PTRACE (docker --cap-add SYS_PTRACE)"
	trace := fmt.Sprintf(remedy, me)
	if apart(tracer, target, "user") {
		return probable("use one user namespace for both, or pass descriptors over a socket", "the processes are in different user namespaces (%s and %s), in which capabilities of one do not count in the other",
			tracer.Namespaces["user"], target.Namespaces["user"])
	}
	if !tracer.mayTrace() {
		switch {
		case tracer.UID >= 0 && target.UID >= 0 && tracer.UID != target.UID:
			return sure(trace, "%s runs as user %d and %s as user %d, and %s lacks CAP_SYS_PTRACE", me, tracer.UID, it, target.UID, me)
		case tracer.GID >= 0 && target.GID >= 0 && tracer.GID != target.GID:
			return sure(trace, "%s runs as group %d and %s as group %d, and %s lacks CAP_SYS_PTRACE", me, tracer.GID, it, target.GID, me)
		case target.Dumpable == 0 || target.Dumpable == 2:
			return sure("let the other process call prctl(PR_SET_DUMPABLE, 1), or start it as its user", "%s is not dumpable, as a process that has changed its user, and %s lacks CAP_SYS_PTRACE", it, me)
		case target.Capabilities&^tracer.Capabilities != 0:
			return sure("give both the same capabilities", "%s has capabilities that %s lacks (%s), and %s lacks CAP_SYS_PTRACE", it, me, capabilities(target.Capabilities&^tracer.Capabilities), me)
		}
	}
	switch {
	case tracer.Yama == 3:
		return sure("sysctl kernel.yama.ptrace_scope=1 after a restart", "kernel.yama.ptrace_scope is 3: no process may look into another one")
	case tracer.Yama == 2 && !tracer.mayTrace():
		return sure("give "+me+" CAP_SYS_PTRACE, or set kernel.yama.ptrace_scope=0", "kernel.yama.ptrace_scope is 2, and %s lacks CAP_SYS_PTRACE", me)
	case tracer.Yama == 1 && !tracer.mayTrace():
		return probable("let the other process call prctl(PR_SET_PTRACER), give "+me+" CAP_SYS_PTRACE, or set kernel.yama.ptrace_scope=0",
			"kernel.yama.ptrace_scope is 1: %s may look only into processes that it has started, or that permit it", me)
	case tracer.Label != "" && tracer.Label != "unconfined" || target.Label != "" && target.Label != "unconfined":
		return probable("look into the log of the security module (dmesg)", "a security module may refuse it: %s has the label %q and %s %q", me, tracer.Label, it, target.Label)
	}
	return probable("", "the system does not permit it, and nothing that was looked at says why")
}
