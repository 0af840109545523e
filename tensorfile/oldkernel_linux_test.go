package tensorfile_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core/coretest"
)

// oldKernel is an environment variable. With the value "install" the test binary starts itself again on a kernel that seems
// to be an old one, where the value is "installed".
const oldKernel = "DLX_TEST_OLD_KERNEL"

// filterRefused begins the message of a process that could not install the filter.
const filterRefused = "seccomp: "

func init() {
	if os.Getenv(oldKernel) != "install" {
		return
	}
	err := os.Setenv(oldKernel, "installed")
	if err == nil {
		err = refuseNewCalls()
	}
	if err == nil {
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ()) // which ends the threads without the filter
	}
	fmt.Println(filterRefused + err.Error())
	os.Exit(1)
}

// refuseNewCalls makes the kernel answer calls of the calling thread, and of the program that it starts, as one does that
// lacks them.
func refuseNewCalls() error {
	const (
		number = 0  // of the call, in the data of a filter
		third  = 32 // the lower half of the third argument, where the processor is little-endian
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	skipUnless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: skip}
	}
	answer := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	filter := []unix.SockFilter{load(number)}
	for _, call := range []uint32{unix.SYS_CACHESTAT, unix.SYS_STATX, unix.SYS_COPY_FILE_RANGE, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER} {
		filter = append(filter, skipUnless(call, 1), answer(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	}
	filter = append(filter,
		skipUnless(unix.SYS_MADVISE, 3), load(third), skipUnless(unix.MADV_POPULATE_READ, 1), answer(unix.SECCOMP_RET_ERRNO|uint32(unix.EINVAL)),
		answer(unix.SECCOMP_RET_ALLOW))
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// All tests of this package pass on a kernel that lacks cachestat, statx, copy_file_range, io_uring and MADV_POPULATE_READ. A
// quick test has those of loading.
func TestOnAnOldKernel(t *testing.T) {
	if os.Getenv(oldKernel) != "" {
		err := unix.Cachestat(0, &unix.CachestatRange{}, &unix.Cachestat_t{}, 0)
		if !errors.Is(err, unix.ENOSYS) {
			t.Fatalf("cachestat: %v, want ENOSYS", err)
		}
		return
	}
	which := "."
	if coretest.Quick() {
		which = "Load|" + t.Name()
	}
	others := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+which, "-test.short", "-test.skip=Python|Zipfile")
	others.Env = append(os.Environ(), oldKernel+"=install")
	out, err := others.CombinedOutput()
	if err != nil && strings.HasPrefix(string(out), filterRefused) {
		t.Skipf("this process may not install a filter of calls: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}
