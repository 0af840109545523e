package doctor

import (
	"context"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// Process looks at another process, which need not know of this package and is not changed. Ways
// that need the help of that process are not tried.
//
// Process returns core.ErrInvalid if there is no process with this number, and
// core.ErrNotSupported if the system shows nothing of it.
func Process(ctx context.Context, pid int, o Options) (Result, error) {
	const call = "Process"
	if pid <= 0 {
		return Result{}, core.Errorf(core.ErrInvalid, "doctor", call, "%d is not the number of a process", pid)
	}
	theirs, err := other(pid)
	if gone(err) {
		return Result{}, core.Errorf(core.ErrInvalid, "doctor", call, "there is no process %d in the PID namespace of this one: use the number that this namespace has for it", pid)
	}
	if err != nil {
		return Result{}, core.Errorf(core.ErrNotSupported, "doctor", call, "the system shows nothing of process %d: %v", pid, err)
	}
	s := &session{options: o, mine: self(), theirs: theirs}
	s.lookHost(false)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return s.result("process"), nil
}

// lookHost finds out which ways are possible without the help of the other process. connected is
// set if a socket connects both.
func (s *session) lookHost(connected bool) {
	add := func(f Finding, v Verdict, c cause) {
		f.Verdict, f.Why, f.Remedy, f.Probably = v, c.why, c.remedy, c.probably
		s.found = append(s.found, f)
	}
	passed := Finding{Way: "descriptor over a socket (SCM_RIGHTS)"}
	memfd := Finding{Way: "memfd over a socket", Host: true, ZeroCopy: true}
	if connected {
		add(passed, Possible, sure("", "a Unix socket connects the processes"))
		verdict, c := Fails, sure("open a device of the host in the other process", "no device of the other process opens memory as mem_fd")
		if slices.ContainsFunc(s.devices, func(d share.PeerDevice) bool { return slices.Contains(d.Imports, core.HandleMemFD) }) {
			verdict, c = Possible, sure("", "a Unix socket connects the processes, and the other one opens memory as mem_fd")
		}
		add(memfd, verdict, c)
	} else {
		c := sure("run dlx doctor --listen SOCKET in the place of that process, and dlx doctor SOCKET here", "it needs a socket that both processes see")
		add(passed, NotTried, c)
		add(memfd, NotTried, c)
	}
	v, c := s.lookShm()
	add(Finding{Way: "POSIX shared memory (shm_open)", Host: true, ZeroCopy: true}, v, c)
	v, c = s.lookSysV()
	add(Finding{Way: "System V shared memory (shmget)", Host: true, ZeroCopy: true}, v, c)
	s.lookTrace(Finding{Way: "pidfd_getfd by this process", Host: true, ZeroCopy: true}, "pidfd_open", func(pid int) error {
		fd, err := getFD(pid, noFD) // no process has that descriptor: EBADF says that another one would be duplicated
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}, unix.EBADF)
	s.lookTrace(Finding{Way: "process_vm_readv by this process", Host: true}, "process_vm_readv", func(pid int) error {
		return readProcess(pid, 0, make([]byte, 1)) // nothing is mapped there: EFAULT says that other memory would be read
	}, unix.EFAULT)
}

// lookShm compares what both see at /dev/shm.
func (s *session) lookShm() (Verdict, cause) {
	switch {
	case s.mine.Shm == "" || s.theirs.Shm == "":
		return NotTried, sure("", "it is not known what is at /dev/shm of both: it is no mount, or the system does not show it")
	case s.mine.Shm != s.theirs.Shm:
		return Fails, s.whyShm(&failure{Call: "shm_open", Code: int64(unix.ENOENT)})
	case s.mine.UID != s.theirs.UID:
		return Possible, sure("", "both processes see the file system %s at /dev/shm; they run as users %d and %d, so the memory needs permissions for both", s.mine.Shm, s.mine.UID, s.theirs.UID)
	}
	return Possible, sure("", "both processes see the file system %s at /dev/shm", s.mine.Shm)
}

// lookSysV compares the IPC namespaces.
func (s *session) lookSysV() (Verdict, cause) {
	switch {
	case apart(&s.mine, &s.theirs, "ipc"):
		return Fails, s.whySysV(&failure{Call: "shmat"})
	case together(&s.mine, &s.theirs, "ipc"):
		return Possible, sure("", "the processes are in one IPC namespace")
	}
	return NotTried, sure("run dlx doctor as the user of that process, or as root", "the system does not show the IPC namespace of that process")
}

// lookTrace makes a call that the system permits or refuses before it does anything. It is
// permitted if it fails with the number permitted.
func (s *session) lookTrace(f Finding, call string, try func(pid int) error, permitted unix.Errno) {
	var err error
	if s.theirs.PID <= 0 {
		err = noNumber(call)
	} else {
		err = try(s.theirs.PID)
	}
	if x := newFailure(err); unix.Errno(x.Code) == permitted && x.Self == 0 {
		f.Verdict, f.Why = Possible, "the system permits the call for this process"
	} else {
		f.fail(err, s.whyHere)
	}
	s.found = append(s.found, f)
}

// examineShare examines what is possible with a process that uses package share. The connection
// owns the socket on success.
func (s *session) examineShare(ctx context.Context, socket *net.UnixConn) (Result, error) {
	c, err := share.New(socket, share.Options{Devices: s.options.Devices})
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	limit, cancel := context.WithTimeout(ctx, s.options.timeout())
	defer cancel()
	if err := c.Handshake(limit); err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{}, core.Errorf(core.ErrClosed, "doctor", "Dial", "the other process did not answer: %v", err)
	}
	peer := c.Peer()
	s.devices = peer.Devices
	s.theirs, _ = look("/nowhere") // all fields are unknown
	s.theirs.PID, s.theirs.UID, s.theirs.GID = int(peer.PID), int(peer.UID), int(peer.GID)
	if peer.PID > 0 {
		if known, err := other(int(peer.PID)); err == nil {
			s.theirs = known
		}
	}
	s.lookHost(true)
	s.lookDevices()
	return s.result("share"), nil
}

// lookDevices compares the devices of both processes.
func (s *session) lookDevices() {
	for _, d := range s.options.Devices {
		mine := describe(d)
		for _, t := range mine.Exports {
			for _, p := range s.partners(&mine, t, func(x *share.PeerDevice) []core.HandleType { return x.Imports }) {
				f := s.finding(wayOf("memory", mine.ID, t), &mine, p)
				f.ZeroCopy, f.Host = true, mine.ID == core.CPU && p.id == core.CPU
				s.found = append(s.found, s.judged(f, p, &mine))
			}
		}
	}
}

// judged is a finding about devices of which only the properties are known.
func (s *session) judged(f Finding, p partner, mine *share.PeerDevice) Finding {
	var c cause
	if p.none != nil {
		c = *p.none
	} else {
		c = s.whyDevice(&failure{Text: "memory is opened by the same device and driver only"}, mine, p)
	}
	switch {
	case c.why == "" || c.probably:
		f.Verdict, f.Why = Possible, "the devices and drivers of both processes are the same"
		if f.Host {
			f.Why = "both processes have a device of the host"
		}
	default:
		f.Verdict, f.Why, f.Remedy = Fails, c.why, c.remedy
	}
	return f
}
