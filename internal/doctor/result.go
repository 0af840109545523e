package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// Options controls an examination. The zero value has no devices and a limit of five seconds.
type Options struct {
	// Devices are tried, too. The caller keeps them open during the call and closes them.
	Devices []core.Device
	// Timeout is how long the other process may take for one answer; 0 means five seconds.
	Timeout time.Duration
}

// timeout returns Timeout or its default.
func (o Options) timeout() time.Duration {
	if o.Timeout <= 0 {
		return 5 * time.Second
	}
	return o.Timeout
}

// Verdict says whether a way works.
type Verdict string

// The verdicts.
const (
	Works    Verdict = "works"     // it was tried
	Possible Verdict = "possible"  // it could not be tried; what the system shows permits it
	Fails    Verdict = "fails"     // it was tried, or cannot be as the reason says
	NotTried Verdict = "not tried" // the reason says why
)

// Finding is what was found about one way.
type Finding struct {
	Way      string  `json:"way"`            // such as "memfd"
	From     string  `json:"from,omitempty"` // the device whose memory, semaphore or event is passed
	To       string  `json:"to,omitempty"`   // the device of the other process that opens it
	Verdict  Verdict `json:"verdict"`
	Host     bool    `json:"host"`               // it shares memory of the host
	ZeroCopy bool    `json:"zero_copy"`          // it shares memory; other ways copy or pass no memory
	Why      string  `json:"why,omitempty"`      // the reason
	Probably bool    `json:"probably,omitempty"` // the reason does not follow from facts alone
	Remedy   string  `json:"remedy,omitempty"`   // what to do
	Call     string  `json:"call,omitempty"`     // the call that failed
	Code     int64   `json:"code,omitempty"`     // its error number
}

// Result is what was found about two processes.
type Result struct {
	Mode     string    `json:"mode"` // "child", "process", "doctor" (the other process runs Listen) or "share" (it uses package share)
	Timeout  int64     `json:"timeout_ns"`
	This     Facts     `json:"this"`
	Other    *Facts    `json:"other"` // null if nothing is known of the other process
	Findings []Finding `json:"findings"`
	// Devices are those of the other process.
	Devices []share.PeerDevice `json:"devices"`
	// HostShared is set if a way to share memory of the host works or is possible.
	HostShared bool `json:"host_shared"`
}

// judge completes a result.
func (r *Result) judge() {
	for _, f := range r.Findings {
		if f.Host && f.ZeroCopy && (f.Verdict == Works || f.Verdict == Possible) {
			r.HostShared = true
		}
	}
}

// Facts are what is known of a process. A field that could not be found out is empty, or -1.
type Facts struct {
	PID        int               `json:"pid"` // as the process that looks or asks sees it; 0 if it does not
	UID        int               `json:"uid"` // effective, in the user namespace of the process that looks
	GID        int               `json:"gid"`
	Namespaces map[string]string `json:"namespaces"` // by kind, such as "pid": "pid:[4026531836]"
	// Capabilities are the permitted ones, a bit for each. Tracing tells them from effective ones: the system compares both.
	Capabilities uint64 `json:"capabilities"`
	Effective    uint64 `json:"effective"`
	Seccomp      int    `json:"seccomp"`   // 0 none, 1 strict, 2 a filter
	Dumpable     int    `json:"dumpable"`  // 1 if other processes of the user may look into it
	Label        string `json:"label"`     // of the security module, such as AppArmor's
	Yama         int    `json:"yama"`      // kernel.yama.ptrace_scope; -1 without Yama
	Files        int64  `json:"files"`     // the limit of open descriptors
	Shm          string `json:"shm"`       // the number of the file system at /dev/shm, such as "0:25"
	ShmBytes     int64  `json:"shm_bytes"` // its size
	ShmFree      int64  `json:"shm_free"`
	State        string `json:"state,omitempty"` // such as "T (stopped)"; of another process only
}

// capSysPtrace is the bit of CAP_SYS_PTRACE.
const capSysPtrace = 19

// mayTrace reports whether the process has CAP_SYS_PTRACE.
func (f *Facts) mayTrace() bool { return f.Effective&(1<<capSysPtrace) != 0 }

// apart reports whether both processes are known to be in different namespaces of a kind.
func apart(a, b *Facts, kind string) bool {
	x, y := a.Namespaces[kind], b.Namespaces[kind]
	return x != "" && y != "" && x != y
}

// together reports whether both processes are known to be in one namespace of a kind.
func together(a, b *Facts, kind string) bool {
	x := a.Namespaces[kind]
	return x != "" && x == b.Namespaces[kind]
}

// Apart returns the kinds of namespaces that differ, such as "pid, ipc".
func (r *Result) Apart() string {
	if r.Other == nil {
		return ""
	}
	var kinds []string
	for _, kind := range namespaceKinds {
		if apart(&r.This, r.Other, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, ", ")
}

// namespaceKinds are the namespaces that matter, in the order in which they are shown.
var namespaceKinds = [...]string{"pid", "ipc", "mnt", "user", "net"}

// cause is why a way fails.
type cause struct {
	why, remedy string
	probably    bool
}

func sure(remedy, format string, args ...any) cause {
	return cause{why: fmt.Sprintf(format, args...), remedy: remedy}
}

func probable(remedy, format string, args ...any) cause {
	return cause{why: fmt.Sprintf(format, args...), remedy: remedy, probably: true}
}

// Credentials are what the system says of the process at the other end of a socket. A number is
// 0 if the process is in a PID namespace that this one does not see.
type Credentials struct {
	PID int `json:"pid"`
	UID int `json:"uid"`
	GID int `json:"gid"`
}
