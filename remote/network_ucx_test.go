//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// networkVariable makes the test binary one of two processes on a network of their own, each in a network namespace. Its
// value says what they do.
const networkVariable = "DLX_REMOTE_NETWORK"

func init() {
	if os.Getenv(networkVariable) != "" {
		runChild = onNetwork
	}
}

// A network is a link between two processes in network namespaces of their own: each has a TUN device, and this process
// passes the packets from one to the other, late, slowly, and not all of them. netem does the same, but is missing in many
// kernels, and namespaces with names stay behind when a test is killed. These end with their processes.
type network struct {
	loss  float64
	delay time.Duration
	rate  float64 // bytes per second
	cut   atomic.Bool
	sides [2]*side

	carried, lost atomic.Int64 // bytes and packets
}

// side is a process on a network.
type side struct {
	process *exec.Cmd
	control *net.UnixConn
	tun     *os.File
	output  bytes.Buffer // after the end of the process
}

const (
	networkPort = ":7470"
	deviceName  = "dlx0"
)

var networkAddresses = [2]string{"10.77.0.1", "10.77.0.2"}

// newNetwork starts the two processes. Side 0 dials, side 1 listens.
func newNetwork(t *testing.T, scenario string) *network {
	t.Helper()
	n := &network{loss: 0.01, delay: time.Millisecond, rate: 100e6 / 8}
	for i := range n.sides {
		n.sides[i] = startSide(t, scenario, i)
	}
	for i, from := range n.sides {
		go n.carry(from.tun, n.sides[1-i].tun, uint64(i))
	}
	for _, s := range []int{1, 0} { // the listener first
		n.sides[s].say(t, 'g')
		n.sides[s].expect(t, 'r')
	}
	return n
}

func startSide(t *testing.T, scenario string, i int) *side {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	here, there := os.NewFile(uintptr(pair[0]), "here"), os.NewFile(uintptr(pair[1]), "there")
	defer here.Close()
	defer there.Close()
	control, err := net.FileConn(here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	s := &side{process: exec.Command(os.Args[0]), control: control.(*net.UnixConn)}
	s.process.Env = append(os.Environ(), networkVariable+"="+scenario, childVariable+"="+networkAddresses[i], "UCX_TLS=tcp,self")
	s.process.ExtraFiles = []*os.File{there}
	s.process.Stdout, s.process.Stderr = &s.output, &s.output
	s.process.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if err := s.process.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
			t.Skipf("this user may not make network namespaces (%v): run the test as root", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.process.Process.Kill(); _ = s.process.Wait() })
	_ = there.Close()
	var b [200]byte
	rights := make([]byte, syscall.CmsgSpace(4))
	k, m, _, _, err := s.control.ReadMsgUnix(b[:], rights)
	if err != nil || k == 0 {
		_ = s.process.Wait()
		t.Fatalf("the other process has ended: %v\n%s", err, &s.output)
	}
	if m == 0 {
		t.Skipf("there are no TUN devices here: %s", b[:k])
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:m])
	if err != nil {
		t.Fatal(err)
	}
	descriptors, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(descriptors[0], true); err != nil {
		t.Fatal(err)
	}
	s.tun = os.NewFile(uintptr(descriptors[0]), "tun")
	t.Cleanup(func() { _ = s.tun.Close() })
	return s
}

// carry passes packets on until a device is closed.
func (n *network) carry(from, to *os.File, seed uint64) {
	type packet struct {
		bytes []byte
		due   time.Time
	}
	queue := make(chan packet, 256) // a switch has few, too
	defer close(queue)
	go func() {
		for p := range queue {
			time.Sleep(time.Until(p.due))
			if !n.cut.Load() {
				_, _ = to.Write(p.bytes)
				n.carried.Add(int64(len(p.bytes)))
			}
		}
	}()
	random := rand.New(rand.NewPCG(seed, 1))
	b, free := make([]byte, 1<<16), time.Now()
	for {
		k, err := from.Read(b)
		if err != nil {
			return
		}
		if random.Float64() < n.loss {
			n.lost.Add(1)
			continue
		}
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(time.Duration(float64(k) / n.rate * 1e9))
		select {
		case queue <- packet{bytes.Clone(b[:k]), free.Add(n.delay)}:
		default:
		}
	}
}

func (s *side) say(t *testing.T, b byte) {
	t.Helper()
	if _, err := s.control.Write([]byte{b}); err != nil {
		t.Fatal(err)
	}
}

// expect waits until the process says b.
func (s *side) expect(t *testing.T, b byte) {
	t.Helper()
	var got [1]byte
	for got[0] != b {
		if _, err := io.ReadFull(s.control, got[:]); err != nil {
			_ = s.process.Wait()
			t.Fatalf("the process has ended: %v\n%s", err, &s.output)
		}
	}
}

// end waits for the end of the process, which has found no error.
func (s *side) end(t *testing.T) {
	t.Helper()
	if err := s.process.Wait(); err != nil {
		t.Errorf("a process on the network: %v\n%s", err, &s.output)
	}
}

// onNetwork is a process on a network. It does not return.
func onNetwork(address string) {
	if err := onNetworkIn(os.Getenv(networkVariable), address); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", address, err)
		os.Exit(1)
	}
	for name, n := range core.Live() {
		if n != 0 {
			fmt.Fprintf(os.Stderr, "%s: %d of %s are open\n", address, n, name)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func onNetworkIn(scenario, address string) error {
	f, err := net.FileConn(os.NewFile(3, "control"))
	if err != nil {
		return err
	}
	control := f.(*net.UnixConn)
	if err := joinNetwork(control, address); err != nil {
		return err
	}
	var b [1]byte
	if _, err := io.ReadFull(control, b[:]); err != nil {
		return err
	}
	go obey(control)
	d, err := cpu.New().Open(context.Background(), core.CPU)
	if err != nil {
		return err
	}
	defer d.Close()
	return networkScenarios[scenario](control, address, d)
}

// obey switches the network device off when the test says so, and ends the process when the test has ended.
func obey(control *net.UnixConn) {
	var b [1]byte
	for {
		if _, err := io.ReadFull(control, b[:]); err != nil {
			os.Exit(2)
		}
		if err := configure(deviceName, "", false); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
}

// joinNetwork makes the TUN device of this process, and passes it to the one that carries the packets.
func joinNetwork(control *net.UnixConn, address string) error {
	if err := syscall.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil { // UCX looks for devices there
		return fmt.Errorf("mount of /sys: %w", err)
	}
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = setUp(tun, address)
	}
	if err != nil {
		_, err = control.Write([]byte(err.Error()))
		return err
	}
	_, _, err = control.WriteMsgUnix([]byte{'t'}, syscall.UnixRights(tun), nil)
	return errors.Join(err, unix.Close(tun))
}

func setUp(tun int, address string) error {
	device, err := unix.NewIfreq(deviceName)
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(tun, unix.TUNSETIFF, device); err != nil {
		return err
	}
	if err := configure(deviceName, address, true); err != nil {
		return err
	}
	return configure("lo", "127.0.0.1", true)
}

// configure gives a network device its address, and switches it on or off.
func configure(name, address string, up bool) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	set := func(request uint, change func(*unix.Ifreq) error) error {
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		return errors.Join(change(r), unix.IoctlIfreq(s, request, r))
	}
	if up {
		if err := set(unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.ParseIP(address).To4()) }); err != nil {
			return err
		}
		if err := set(unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }); err != nil {
			return err
		}
	}
	return set(unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		if up {
			r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		}
		return nil
	})
}

// networkScenarios are what the processes do. They are set here because they use what refers to this map.
var networkScenarios = map[string]func(control *net.UnixConn, address string, d core.Device) error{
	"bytes":   everyByte,
	"traffic": trafficUntilTheEnd,
}

// meetOnNetwork connects the two processes.
func meetOnNetwork(control *net.UnixConn, address string, o Options) (*Conn, error) {
	ready := func() error { _, err := control.Write([]byte{'r'}); return err }
	if address == networkAddresses[0] {
		c, err := Dial(context.Background(), networkAddresses[1]+networkPort, o)
		return c, errors.Join(err, ready())
	}
	l, err := Listen(address+networkPort, o)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := ready(); err != nil {
		return nil, err
	}
	return l.Accept(context.Background())
}

var networkToken = bytes.Repeat([]byte{5}, minToken)

// everyByte sends tensors both ways, and offers one that the other side reads and overwrites.
func everyByte(control *net.UnixConn, address string, d core.Device) error {
	c, err := meetOnNetwork(control, address, Options{Token: networkToken, KeepAlive: time.Minute})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := context.Background()
	sizes := []int{0, 1, 1400, 9000, 100_000, pieceBytes + 1}
	if os.Getenv("DLX_THOROUGH") == "1" {
		sizes = append(sizes, 8192, 8193, 1<<20, 10*pieceBytes+7)
	}
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for _, n := range sizes {
				x, err := core.FromSlice(coretest.Pattern(n, uint64(n)))
				if err != nil {
					return err
				}
				_, err = c.Send(ctx, x)
				_ = x.Close()
				if err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	same := func(y *core.Tensor, want []byte) error {
		got, err := core.Values[uint8](y)
		if err == nil && !bytes.Equal(got, want) {
			err = fmt.Errorf("a tensor of %d bytes has other elements", len(want))
		}
		return err
	}
	for _, n := range sizes {
		y, _, err := c.Receive(ctx, d)
		if err != nil {
			return err
		}
		err = same(y, coretest.Pattern(n, uint64(n)))
		_ = y.Close()
		if err != nil {
			return err
		}
	}
	if err := errors.Join(<-sent, c.WaitReceived(ctx)); err != nil {
		return err
	}
	const n = 300_000
	x, err := core.FromSlice(coretest.Pattern(n, 1))
	if err != nil {
		return err
	}
	defer x.Close()
	if address == networkAddresses[1] {
		f, err := c.Offer(x, OfferOptions{Writable: true})
		if err != nil {
			return err
		}
		key, err := core.FromSlice(f.Descriptor())
		if err != nil {
			return err
		}
		defer key.Close()
		if _, err := c.Send(ctx, key); err != nil {
			return err
		}
		<-c.Done()
		want := append(coretest.Pattern(n, 1)[:n/2], coretest.Pattern(n/2, 2)...)
		return same(x, want)
	}
	key, _, err := c.Receive(ctx, d)
	if err != nil {
		return err
	}
	defer key.Close()
	descriptor, err := core.Values[uint8](key)
	if err != nil {
		return err
	}
	y, _, err := c.FetchRows(ctx, descriptor, 100, n, d)
	if err != nil {
		return err
	}
	defer y.Close()
	half, err := core.FromSlice(coretest.Pattern(n/2, 2))
	if err != nil {
		return err
	}
	defer half.Close()
	_, err = c.PutRows(ctx, descriptor, n/2, half)
	return errors.Join(err, same(y, coretest.Pattern(n, 1)[100:]))
}

// trafficUntilTheEnd sends and receives tensors until the connection has ended. The error is typed, nothing is in flight, and
// another connection goes on.
func trafficUntilTheEnd(control *net.UnixConn, address string, d core.Device) error {
	c, err := meetOnNetwork(control, address, Options{Token: networkToken, KeepAlive: 2 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := Listen("127.0.0.1:0", Options{Insecure: true, KeepAlive: time.Minute})
	if err != nil {
		return err
	}
	defer l.Close()
	a, err := Dial(context.Background(), l.Addr().String(), Options{Insecure: true, KeepAlive: time.Minute})
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := l.Accept(context.Background())
	if err != nil {
		return err
	}
	defer b.Close()
	ended := traffic(c, d, func() { _, _ = control.Write([]byte{'m'}) })
	var typed *ConnError
	if !errors.As(ended, &typed) || !errors.Is(ended, core.ErrClosed) {
		return fmt.Errorf("the connection ended with %w", ended)
	}
	if s := c.Stats(); s.Waiting != 0 {
		return fmt.Errorf("afterwards: %+v", s)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", address, typed)
	x, err := core.FromSlice(coretest.Pattern(100_000, 1))
	if err != nil {
		return err
	}
	defer x.Close()
	sent := make(chan error, 1)
	go func() { _, err := a.Send(context.Background(), x); sent <- err }()
	y, _, err := b.Receive(context.Background(), d)
	if err := errors.Join(err, <-sent); err != nil {
		return fmt.Errorf("another connection: %w", err)
	}
	return y.Close()
}

// On a network of 100 Mbit/s with a delay of 1 ms, which loses 1 packet of 100, each byte arrives as it was sent.
func TestBadNetwork(t *testing.T) {
	n := newNetwork(t, "bytes")
	for _, s := range n.sides {
		s.end(t)
	}
	if bytes, lost := n.carried.Load(), n.lost.Load(); bytes < 2*pieceBytes || lost == 0 {
		t.Errorf("the network has carried %d bytes and lost %d packets: the tensors took another way", bytes, lost)
	}
}

// The network fails while tensors travel. Both sides get a typed error after the keep-alive time.
func TestNetworksThatFail(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, n *network){
		"nothing arrives":          func(_ *testing.T, n *network) { n.cut.Store(true) },
		"a device is switched off": func(t *testing.T, n *network) { n.sides[0].say(t, 'd') },
		"half-open": func(_ *testing.T, n *network) { // the peer is gone, and its system says nothing
			n.cut.Store(true)
			_ = n.sides[0].process.Process.Kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, "traffic")
			for _, s := range n.sides {
				s.expect(t, 'm')
			}
			fail(t, n)
			n.sides[1].end(t)
			if name == "half-open" {
				_ = n.sides[0].process.Wait()
			} else {
				n.sides[0].end(t)
			}
			if said := n.sides[1].output.String(); !strings.Contains(said, "no sign of life for 2s") && !strings.Contains(said, "UCX has lost the peer") {
				t.Errorf("the reason is %s", said)
			}
		})
	}
}
