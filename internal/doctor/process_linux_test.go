package doctor

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// What is possible with a process that does not know that it is looked at.
func TestProcess(t *testing.T) {
	for name, c := range map[string]struct {
		process
		want map[string]Verdict
	}{
		"same":            {process{}, map[string]Verdict{"pidfd_getfd": Possible, "process_vm_readv": Possible, "System V": Possible, "memfd": NotTried}},
		"IPC namespace":   {process{flags: syscall.CLONE_NEWIPC}, map[string]Verdict{"System V": Fails}},
		"mount namespace": {process{flags: syscall.CLONE_NEWNS, confine: "shm"}, map[string]Verdict{"POSIX": Fails}},
		"PID namespace":   {process{flags: syscall.CLONE_NEWPID}, map[string]Verdict{"System V": Possible}},
		"user":            {process{user: 65534}, map[string]Verdict{"System V": Possible, "pidfd_getfd": Possible}}, // root may look into it
	} {
		t.Run(name, func(t *testing.T) {
			c.skipUnless(t)
			cmd := c.command("sleep")(t.Context())
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			background(t, cmd)
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "started\n" {
				t.Fatalf("%q, error %v", line, err)
			}
			r, err := Process(t.Context(), cmd.Process.Pid, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Mode != "process" || r.Other.PID != cmd.Process.Pid {
				t.Errorf("%+v", r)
			}
			if os.Getuid() != 0 && c.flags != 0 {
				return
			}
			for way, want := range c.want {
				if f := of(t, r, way); f.Verdict != want || f.Why == "" {
					t.Errorf("%+v; want %s", f, want)
				}
			}
		})
	}
	for _, pid := range []int{0, -1, 1<<22 + 5} {
		if _, err := Process(t.Context(), pid, Options{}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

// Each rule of the system has a reason of its own. What has no rule is only probable.
func TestWhyTrace(t *testing.T) {
	eperm := &failure{Call: "pidfd_getfd", Code: int64(syscall.EPERM)}
	root := Facts{Yama: -1, Dumpable: 1, Namespaces: map[string]string{"user": "user:[1]", "pid": "pid:[1]"}}
	with := func(change func(tracer, target *Facts)) (Facts, Facts) {
		tracer, target := root, root
		change(&tracer, &target)
		return tracer, target
	}
	for _, c := range []struct {
		says     string
		probably bool
		change   func(tracer, target *Facts)
	}{
		{"nothing that was looked at says why", true, func(_, _ *Facts) {}},
		{"runs as group 0 and the other one as group 5", false, func(_, target *Facts) { target.GID = 5 }},
		{"is not dumpable", false, func(_, target *Facts) { target.Dumpable = 0 }},
		{"lacks (CAP_NET_ADMIN, CAP_SYS_ADMIN)", false, func(_, target *Facts) { target.Capabilities = 1<<12 | 1<<21 }},
		{"lacks (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and 61 others)", false, func(_, target *Facts) { target.Capabilities = ^uint64(0) }},
		{"lacks (CAP_63)", false, func(_, target *Facts) { target.Capabilities = 1 << 63 }},
		{"ptrace_scope is 3", false, func(tracer, _ *Facts) { tracer.Yama, tracer.Effective = 3, ^uint64(0) }},
		{"ptrace_scope is 2", false, func(tracer, _ *Facts) { tracer.Yama = 2 }},
		{"ptrace_scope is 1", true, func(tracer, _ *Facts) { tracer.Yama = 1 }},
		{`the label "docker-default"`, true, func(tracer, _ *Facts) { tracer.Label = "docker-default" }},
		{"nothing that was looked at says why", true, func(tracer, target *Facts) { tracer.Effective, target.UID = ^uint64(0), 9 }},
	} {
		tracer, target := with(c.change)
		if got := whyTrace(eperm, &tracer, &target, true); !strings.Contains(got.why, c.says) || got.probably != c.probably {
			t.Errorf("%+v, want %q", got, c.says)
		}
	}
	for _, c := range []struct {
		f       failure
		seccomp int
		says    string
	}{
		{failure{Call: "pidfd_getfd", Code: int64(syscall.ENOSYS), Self: int64(syscall.ENOSYS)}, 0, "the kernel is too old"},
		{failure{Call: "pidfd_getfd", Code: int64(syscall.ENOSYS), Self: int64(syscall.ENOSYS)}, 2, "seccomp filter"},
		{failure{Call: "pidfd_getfd", Code: int64(syscall.EPERM), Self: int64(syscall.EPERM)}, 0, "has no seccomp filter"},
		{failure{Call: "pidfd_open", Code: int64(syscall.ESRCH)}, 0, "has ended"},
		{failure{Call: "pidfd_getfd", Code: int64(syscall.EBADF)}, 0, ""},
	} {
		tracer, target := root, root
		tracer.Seccomp = c.seccomp
		if got := whyTrace(&c.f, &tracer, &target, true); !strings.Contains(got.why, c.says) || c.says == "" && got.why != "" {
			t.Errorf("%+v: %+v, want %q", c.f, got, c.says)
		}
	}
}
