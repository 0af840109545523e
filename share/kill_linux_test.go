package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

const (
	childTraffic = "traffic" // sends and receives until it is killed, or its peer has ended
	slotWords    = 512
)

// start starts this test binary as another process, and connects to it.
func start(t testing.TB, role string, o Options) (*Conn, *os.Process) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	defer theirs.Close()
	c, err := New(unixConn(t, fds[0]), o)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), childVariable+"="+role)
	child.ExtraFiles = []*os.File{theirs}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // or sooner, by stop
		_ = child.Process.Kill()
		_ = child.Wait()
		_ = c.Close()
	})
	return c, child.Process
}

// roles are what the other process can do.
var roles = map[string]func() error{}

// role adds a role.
func role(name string, do func() error) struct{} {
	roles[name] = do
	return struct{}{}
}

var (
	_ = role(childTraffic, childsTraffic)
	_ = role(childDevices, func() error { return sendDevices(inherited) })
	_ = role(childContainer, dialFromContainer)
	_ = role(childTight, receiveTightly)
)

// runChild is the other process. It does not return.
func runChild(name string) {
	err := errors.New("there is no such role")
	if do := roles[name]; do != nil {
		err = do()
	}
	if err != nil && !errors.Is(err, core.ErrClosed) {
		fmt.Fprintf(os.Stderr, "the other process, %s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// inherited makes a connection of the socket that the other process got from the test.
func inherited(devices []core.Device) (*Conn, error) {
	f := os.NewFile(3, "socket")
	defer f.Close()
	socket, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return New(socket.(*net.UnixConn), Options{Devices: devices})
}

func childsTraffic() error {
	d, err := cpu.New().Open(context.Background(), core.CPU)
	if err != nil {
		return err
	}
	c, err := inherited([]core.Device{d})
	if err != nil {
		return err
	}
	return traffic(c, d, nil)
}

// traffic sends and receives tensors until the connection ends, and returns why. seen, if not
// nil, is called for each tensor.
func traffic(c *Conn, d core.Device, seen func()) error {
	var both sync.WaitGroup
	var sent, received error
	both.Go(func() { sent = produce(c, d) })
	received = consume(c, d, seen)
	if !errors.As(received, new(*ConnError)) {
		_ = c.Close()
	}
	both.Wait()
	for _, err := range []error{received, sent} {
		if !errors.As(err, new(*ConnError)) {
			return err
		}
	}
	return received
}

// produce fills slots and sends them. It overwrites a slot only when the peer has released it.
// Each seventh tensor is in memory that has to be copied.
func produce(c *Conn, d core.Device) error {
	const slots = 4
	ctx := context.Background()
	whole, err := core.Empty(ctx, d, core.TypeUint64, []int64{slots, slotWords}, memfd)
	if err != nil {
		return err
	}
	defer whole.Close()
	private, err := core.FromSlice(make([]uint64, slotWords), slotWords)
	if err != nil {
		return err
	}
	defer private.Close()
	for round := uint64(1); ; round++ {
		slot := private
		if round%7 != 0 {
			if slot, err = whole.Index(0, int64(round%slots)); err != nil {
				return err
			}
		}
		err = waitFor(c, slot)
		if err == nil {
			var words []uint64
			if words, err = core.Mutable[uint64](slot); err == nil {
				fillSlot(words, round)
				_, err = c.Send(ctx, slot)
			}
		}
		if slot != private {
			slot.Close()
		}
		if err != nil {
			return err
		}
	}
}

// waitFor waits until a slot may be overwritten.
func waitFor(c *Conn, slot *core.Tensor) error {
	if err := slot.WaitIdle(context.Background()); err != nil {
		return err
	}
	return c.Err()
}

// fillSlot writes a slot whose last word is a checksum.
func fillSlot(words []uint64, round uint64) {
	sum := uint64(0)
	for i := range words[:len(words)-1] {
		words[i] = round*0x9e3779b97f4a7c15 + uint64(i)
		sum = sum*31 + words[i]
	}
	words[len(words)-1] = sum
}

// consume receives slots and checks them.
func consume(c *Conn, d core.Device, seen func()) error {
	for {
		x, _, err := c.Receive(context.Background(), d)
		if err != nil {
			return err
		}
		words, err := core.Values[uint64](x)
		if err != nil {
			x.Close()
			return err
		}
		sum := uint64(0)
		for _, w := range words[:len(words)-1] {
			sum = sum*31 + w
		}
		torn := sum != words[len(words)-1]
		x.Close()
		if torn {
			return fmt.Errorf("the value of a tensor is torn")
		}
		if seen != nil {
			seen()
		}
	}
}

func TestTwoProcesses(t *testing.T) {
	d := host(t)
	c, _ := start(t, childTraffic, of(d))
	n := 0
	err := traffic(c, d, func() {
		if n++; n == 500 {
			c.fail(errClosedHere)
		}
	})
	if !errors.Is(err, core.ErrClosed) || n < 500 {
		t.Errorf("after %d tensors: %v", n, err)
	}
}

// Processes are killed at random moments: the other process gets a typed error, no value is
// torn, and nothing stays open.
func TestKilledProcesses(t *testing.T) {
	kills := coretest.Times(100, 1000, 10_000)
	coretest.CheckNoLeaks(t)
	d := host(t)
	before := coretest.SettledDescriptors()
	mappings := mapped(t)
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	received := 0
	for i := range kills {
		t.Run("", func(t *testing.T) {
			c, child := start(t, childTraffic, of(d))
			// In the middle of its start, of the handshake, or of the traffic.
			delay, after := time.Duration(random.IntN(20_000))*time.Microsecond, random.IntN(200)
			kill := sync.OnceFunc(func() { _ = child.Kill() })
			timer := time.AfterFunc(delay, kill)
			if i%2 == 0 {
				timer.Stop()
			}
			n := 0
			err := traffic(c, d, func() {
				received++
				if n++; n > after && i%2 == 0 {
					kill()
				}
			})
			kill()
			var typed *ConnError
			if !errors.As(err, &typed) || !errors.Is(err, core.ErrClosed) {
				t.Errorf("the survivor has the error %v", err)
			}
			_ = c.Close()
			if s := c.Stats(); s.InFlight != 0 || s.Held != 0 {
				t.Errorf("afterwards: %+v", s)
			}
		})
	}
	t.Logf("%d processes were killed; %d tensors arrived whole", kills, received)
	if received == 0 {
		t.Error("no tensor arrived")
	}
	coretest.WantDescriptors(t, before, "afterwards")
	until(t, "no memory of the killed processes is mapped", func() bool { return mapped(t) == mappings })
}

// mapped counts the memory files that this process has mapped.
func mapped(t testing.TB) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := 0; i+len("/memfd:dlx") <= len(maps); i++ {
		if string(maps[i:i+len("/memfd:dlx")]) == "/memfd:dlx" {
			n++
		}
	}
	return n
}

// A process that is stopped blocks its peer no longer than the peer's context, and goes on later.
func TestAStoppedProcess(t *testing.T) {
	d := host(t)
	c, child := start(t, childTraffic, of(d))
	if err := c.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	x, err := core.FromSlice(make([]uint64, slotWords), slotWords) // zeros, whose checksum is right
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	sent := 0
	for err == nil {
		if _, err = c.Send(ctx, x); err == nil {
			sent++
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) || sent == 0 {
		t.Errorf("after %d tensors: %v", sent, err)
	}
	if err := child.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	released(t, c)
	send(t, c, x)
	released(t, c)
}
