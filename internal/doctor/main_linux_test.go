package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// The environment of the other process of a test.
const (
	roleVariable    = "DLX_DOCTOR_ROLE"    // "serve", "listen SOCKET" or "sleep"
	confineVariable = "DLX_DOCTOR_CONFINE" // what the process gives up first
	driverVariable  = "DLX_DOCTOR_DRIVER"  // the first byte of the driver's UUID of its device, and what importing does
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		coretest.Main(m)
		return
	}
	if how := os.Getenv(confineVariable); how != "" {
		check(confine(how))
	}
	devices, closeAll := open(os.Getenv(driverVariable))
	var err error
	switch o := (Options{Devices: devices}); {
	case role == "serve":
		err = Serve(context.Background(), 3, o)
	case strings.HasPrefix(role, "listen "):
		err = Listen(context.Background(), strings.TrimPrefix(role, "listen "), 0o666, o, nil)
	case role == "sleep":
		fmt.Println("started")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
	}
	closeAll()
	check(err)
	for what, n := range core.Live() {
		if n != 0 {
			check(fmt.Errorf("%d left open: %s", n, what))
		}
	}
	os.Exit(0)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// confine takes something from this process, and starts the program again.
func confine(how string) error {
	runtime.LockOSThread() // what a thread has given up, the program that it starts has not
	switch how {
	case "seccomp":
		if err := refuseCalls(unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_VM_READV); err != nil {
			return err
		}
	case "capabilities":
		for c := range uintptr(64) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				break // the last one that the kernel knows
			}
		}
	case "shm":
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
	}
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, confineVariable+"=") {
			env = append(env, v)
		}
	}
	return syscall.Exec("/proc/self/exe", os.Args, env)
}

// refuseCalls makes system calls fail with EPERM, in this thread and the program that it starts.
func refuseCalls(calls ...uint32) error {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}} // the number of the call
	for _, n := range calls {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: n},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// process is how the other process of a test is started.
type process struct {
	flags   uintptr // CLONE_NEWPID and others
	confine string
	driver  string
	user    uint32 // 0: that of this process
}

// paired examines the ways to such a process, which must end well.
func (p process) paired(t *testing.T, o Options) Result {
	t.Helper()
	var last *exec.Cmd
	r, err := Pair(t.Context(), func(ctx context.Context) *exec.Cmd {
		last = p.command("serve")(ctx)
		return last
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	if !last.ProcessState.Success() {
		t.Errorf("the other process has ended with %v", last.ProcessState)
	}
	return r
}

// command returns the command of the other process.
func (p process) command(role string) func(context.Context) *exec.Cmd {
	return func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/proc/self/exe")
		cmd.Env = append(os.Environ(), roleVariable+"="+role, confineVariable+"="+p.confine, driverVariable+"="+p.driver,
			"GORACE=atexit_sleep_ms=0") // the race detector waits for a second at the end of each process
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: p.flags, Pdeathsig: syscall.SIGKILL}
		if p.user != 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.user, Gid: p.user}
		}
		if os.Getuid() != 0 && p.flags != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		}
		if cmd.SysProcAttr.Cloneflags&syscall.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		return cmd
	}
}

// skipUnless skips a test where such a process cannot be started.
func (p process) skipUnless(t *testing.T) {
	t.Helper()
	if (p.user != 0 || p.confine == "capabilities") && os.Getuid() != 0 {
		t.Skip("only root can start a process of another user, or with fewer capabilities than itself")
	}
	if p.user != 0 {
		// A process that Go starts shares its memory with this one until it runs another program, so that its change of the
		// user makes this process one that others may not look into.
		t.Cleanup(func() {
			if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
				t.Error(err)
			}
		})
	}
	if p.flags == 0 {
		return
	}
	cmd := p.command("sleep")(t.Context())
	cmd.Stderr = nil
	if err := cmd.Run(); err != nil {
		t.Skipf("the system permits no such namespaces here: %v", err)
	}
}

// open opens the devices of a process: the host, and one that is like a GPU, unless driver is
// empty. The caller calls the result.
func open(driver string) ([]core.Device, func()) {
	d, err := cpu.New().Open(context.Background(), core.CPU)
	check(err)
	list := []core.Device{d}
	if driver != "" {
		list = append(list, card{d.(hostDevice), driver})
	}
	return list, func() { check(d.Close()) }
}

// hostDevice is what package cpu opens.
type hostDevice interface {
	core.Device
	core.MemoryExporter
	core.MemoryImporter
}

// card is like a GPU whose memory can be passed as an opaque descriptor to the same driver. Its
// memory is that of the host.
type card struct {
	hostDevice
	driver string // the first letter is of its UUID; what follows says what importing does
}

func (c card) ID() core.DeviceID { return core.DeviceID{Type: core.DeviceExt} }

func (c card) Properties() core.Properties {
	p := c.hostDevice.Properties()
	p.ID, p.UUID, p.DriverUUID = c.ID(), core.UUID{7}, core.UUID{c.driver[0]}
	return p
}

func (c card) Alloc(ctx context.Context, n int64, o core.AllocOptions) (core.Memory, error) {
	if o.Export == core.HandleOpaqueFD {
		o.Export = core.HandleMemFD
	}
	return c.hostDevice.Alloc(ctx, n, o)
}

func (c card) ExportTypes() []core.HandleType { return []core.HandleType{core.HandleOpaqueFD} }

func (c card) ImportTypes() []core.HandleType { return c.ExportTypes() }

// convert makes m as it is with handles of the type t.
func convert(m core.ExternalMemory, t core.HandleType) (core.ExternalMemory, error) {
	n, err := m.Handle.Take()
	if err != nil {
		return m, err
	}
	m.Handle, err = backendkit.NewHandle(t, n)
	return m, err
}

func (c card) ExportMemory(b *core.Buffer, t core.HandleType) (core.ExternalMemory, error) {
	m, err := c.hostDevice.ExportMemory(b, core.HandleMemFD)
	if err != nil {
		return m, err
	}
	m.DeviceUUID, m.DriverUUID = c.Properties().UUID, c.Properties().DriverUUID
	return convert(m, t)
}

func (c card) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	switch c.driver[1:] {
	case " stops":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-make(chan struct{}) // until the signal arrives, and after it
	case " crashes":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if p := c.Properties(); m.DeviceUUID != p.UUID || m.DriverUUID != p.DriverUUID {
		return core.Memory{}, core.Errorf(core.ErrDevice, "ext_dev", "ImportMemory", "the memory is of driver %v", m.DriverUUID)
	}
	m.DeviceUUID, m.DriverUUID = core.UUID{}, core.UUID{}
	file, err := convert(m, core.HandleMemFD)
	if err != nil {
		return core.Memory{}, err
	}
	x, err := c.hostDevice.ImportMemory(ctx, file)
	if err != nil {
		_ = file.Close()
	}
	return x, err
}
