package doctor

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// self returns what is known of this process.
func self() Facts {
	f, _ := look("/proc/self") // what is not known stays empty
	f.PID, f.UID, f.GID = os.Getpid(), os.Geteuid(), os.Getegid()
	f.State = ""
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err == nil {
		f.Dumpable = n
	}
	var s unix.Statfs_t
	if unix.Statfs("/dev/shm", &s) == nil {
		f.ShmBytes, f.ShmFree = int64(s.Blocks)*s.Bsize, int64(s.Bavail)*s.Bsize
	}
	return f
}

// procIsOurs reports whether /proc is that of the PID namespace of this process, so that
// numbers in it mean what they mean elsewhere.
func procIsOurs() bool {
	link, err := os.Readlink("/proc/self")
	return err == nil && link == strconv.Itoa(os.Getpid())
}

// other returns what is known of another process. The error wraps fs.ErrNotExist if there is no
// such process.
func other(pid int) (Facts, error) {
	if !procIsOurs() {
		return Facts{}, core.Errorf(core.ErrNotSupported, "doctor", "Process", "/proc belongs to another PID namespace than this process: mount one of its own")
	}
	return look("/proc/" + strconv.Itoa(pid))
}

// look reads what the system shows of a process. The error says that it shows nothing.
func look(proc string) (Facts, error) {
	f := Facts{Namespaces: map[string]string{}, Seccomp: -1, Dumpable: -1, Yama: -1, Files: -1, UID: -1, GID: -1}
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return f, err
	}
	for line := range bytes.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		value = strings.TrimSpace(value)
		fields := strings.Fields(value)
		number := func(i int) int {
			if i < len(fields) {
				if n, err := strconv.Atoi(fields[i]); err == nil {
					return n
				}
			}
			return -1
		}
		switch name {
		case "Pid":
			f.PID = number(0)
		case "Uid":
			f.UID = number(1)
		case "Gid":
			f.GID = number(1)
		case "State":
			f.State = value
		case "CapPrm":
			f.Capabilities, _ = strconv.ParseUint(value, 16, 64)
		case "CapEff":
			f.Effective, _ = strconv.ParseUint(value, 16, 64)
		case "Seccomp":
			f.Seccomp = number(0)
		}
	}
	for _, kind := range namespaceKinds {
		if link, err := os.Readlink(proc + "/ns/" + kind); err == nil {
			f.Namespaces[kind] = link
		}
	}
	if label, err := os.ReadFile(proc + "/attr/current"); err == nil {
		f.Label = strings.TrimRight(string(label), "\n\x00")
	}
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(scope))); err == nil {
			f.Yama = n
		}
	}
	if limits, err := os.ReadFile(proc + "/limits"); err == nil {
		for line := range bytes.Lines(limits) {
			if rest, ok := strings.CutPrefix(string(line), "Max open files"); ok && len(strings.Fields(rest)) > 0 {
				if n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64); err == nil {
					f.Files = n
				}
			}
		}
	}
	// The system makes root the owner of the files of a process that others may not look into.
	var s unix.Stat_t
	if unix.Stat(proc, &s) == nil {
		f.Dumpable = 1
		if int(s.Uid) != f.UID && f.UID > 0 {
			f.Dumpable = 0
		}
	}
	f.Shm = shmOf(proc)
	return f, nil
}

// shmOf returns the number of the file system that a process sees at /dev/shm.
func shmOf(proc string) string {
	mounts, err := os.ReadFile(proc + "/mountinfo")
	if err != nil {
		return ""
	}
	found := ""
	for line := range bytes.Lines(mounts) {
		if fields := strings.Fields(string(line)); len(fields) > 4 && fields[4] == "/dev/shm" {
			found = fields[2] // the last one is on top
		}
	}
	return found
}

// gone reports whether err says that there is no such process.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
