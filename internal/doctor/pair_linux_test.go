package doctor

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// hostWays are the ways of the host without udmabuf, which most machines lack.
var hostWays = []string{
	"descriptor over a socket", "memfd over a socket", "POSIX shared memory", "System V shared memory",
	"pidfd_getfd by this process", "pidfd_getfd by the other process",
	"process_vm_readv by this process", "process_vm_readv by the other process",
}

// of returns the finding about a way.
func of(t *testing.T, r Result, way string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Way, way) {
			return f
		}
	}
	t.Fatalf("nothing was found about %q", way)
	return Finding{}
}

// expected is a way that fails, and a part of the reason. A reason that is only probable begins
// with "?".
type expected map[string]string

// checkWays fails unless the ways of want fail as they say, and all others of the host work.
func checkWays(t *testing.T, r Result, want expected) {
	t.Helper()
	for _, way := range hostWays {
		f := of(t, r, way)
		why, fails := want[way]
		why, guess := strings.CutPrefix(why, "?")
		switch {
		case !fails && f.Verdict != Works:
			t.Errorf("%s: %+v", way, f)
		case fails && (f.Verdict != Fails || !strings.Contains(f.Why, why) || f.Probably != guess || f.Remedy == ""):
			t.Errorf("%s: %+v; it should fail because of %q", way, f, want[way])
		}
	}
}

// The other process may see less, be somebody else, or may not call all that this one may.
func TestPair(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not as root: each process has a user namespace, too, and some reasons are others")
	}
	for name, c := range map[string]struct {
		process
		want expected
	}{
		"same": {},
		"PID namespace": {process{flags: syscall.CLONE_NEWPID}, expected{
			"pidfd_getfd by the other":      "no number in the PID namespace",
			"process_vm_readv by the other": "no number in the PID namespace",
		}},
		"IPC namespace": {process{flags: syscall.CLONE_NEWIPC}, expected{"System V": "different IPC namespaces (ipc:["}},
		"mount namespace": {process{flags: syscall.CLONE_NEWNS, confine: "shm"}, expected{
			"POSIX": "different file systems at /dev/shm",
		}},
		"network namespace": {process: process{flags: syscall.CLONE_NEWNET}},
		"user namespace": {process{flags: syscall.CLONE_NEWUSER}, expected{
			"pidfd_getfd by the other":      "?different user namespaces",
			"process_vm_readv by the other": "?different user namespaces",
		}},
		"all namespaces": {process{flags: syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, confine: "shm"}, expected{
			"POSIX":                         "different file systems at /dev/shm",
			"System V":                      "different IPC namespaces",
			"pidfd_getfd by the other":      "no number in the PID namespace",
			"process_vm_readv by the other": "no number in the PID namespace",
		}},
		"seccomp": {process{confine: "seccomp"}, expected{
			"pidfd_getfd by the other":      "its seccomp filter refuses that (pidfd_getfd: operation not permitted)",
			"process_vm_readv by the other": "its seccomp filter refuses that (process_vm_readv: operation not permitted)",
		}},
		"capabilities": {process{confine: "capabilities"}, expected{
			"pidfd_getfd by the other":      "capabilities that the other one lacks",
			"process_vm_readv by the other": "capabilities that the other one lacks",
		}},
		"another user": {process{user: 65534}, expected{
			"POSIX":                         "runs as user 65534",
			"System V":                      "runs as user 65534",
			"pidfd_getfd by the other":      "the other one runs as user 65534 and this process as user 0",
			"process_vm_readv by the other": "the other one runs as user 65534 and this process as user 0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.skipUnless(t)
			devices, closeAll := open("a")
			defer closeAll()
			c.driver = "a"
			r := c.paired(t, Options{Devices: devices})
			if os.Getuid() == 0 || c.flags == 0 {
				want := expected{}
				for way, why := range c.want {
					for _, whole := range hostWays {
						if strings.HasPrefix(whole, way) {
							want[whole] = why
						}
					}
				}
				checkWays(t, r, want)
			}
			for _, way := range []string{"memory as mem_fd", "memory as opaque_fd"} {
				if f := of(t, r, way); f.Verdict != Works || !f.ZeroCopy {
					t.Errorf("%+v", f)
				}
			}
			if !r.HostShared || r.Mode != "child" || r.Other == nil || len(r.Devices) != 2 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A device of another driver does not open memory, and the reason has both UUIDs.
func TestPairOfDrivers(t *testing.T) {
	devices, closeAll := open("a")
	defer closeAll()
	r := process{driver: "b"}.paired(t, Options{Devices: devices})
	f := of(t, r, "memory as opaque_fd")
	if f.Verdict != Fails || f.Probably || !strings.Contains(f.Why, core.UUID{'a'}.String()) || !strings.Contains(f.Why, core.UUID{'b'}.String()) || !strings.Contains(f.Why, "the drivers differ") {
		t.Errorf("%+v", f)
	}
	r = process{}.paired(t, Options{Devices: devices})
	if f := of(t, r, "memory as opaque_fd"); f.Verdict != Fails || f.To != "" || !strings.Contains(f.Why, "no device of the other process opens") {
		t.Errorf("%+v", f)
	}
}

// A driver that never returns or ends its process is a finding, and the next ways are tried with
// another process.
func TestPairWithABadDriver(t *testing.T) {
	for driver, want := range map[string]string{"a crashes": "has ended during this (signal: killed)", "a stops": "did not answer within 2s: its state is "} {
		t.Run(driver, func(t *testing.T) {
			devices, closeAll := open("a")
			defer closeAll()
			devices = append(devices[1:], devices[0]) // the bad one first
			o := Options{Devices: devices}
			if driver == "a stops" {
				o.Timeout = 2e9
			}
			r := process{driver: driver}.paired(t, o)
			if f := of(t, r, "memory as opaque_fd"); f.Verdict != Fails || !strings.Contains(f.Why, want) {
				t.Errorf("%+v; it should fail because of %q", f, want)
			}
			if f := of(t, r, "memory as mem_fd"); driver == "a crashes" && f.Verdict != Works {
				t.Errorf("after a crash: %+v", f)
			}
		})
	}
}
