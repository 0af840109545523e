package share_test

import (
	"fmt"
	"net"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/share"
)

// openAll opens every device of the build. The test closes them.
func openAll(t testing.TB) []core.Device {
	t.Helper()
	var devices []core.Device
	t.Cleanup(func() {
		for _, d := range slices.Backward(devices) {
			if err := d.Close(); err != nil {
				t.Errorf("closing %v: %v", d.ID(), err)
			}
		}
	})
	for _, b := range all.New().Backends() {
		if coretest.LeavesOut(t, b.Probe(t.Context()).Reason, "a driver for "+b.Name()) {
			continue
		}
		list, err := b.Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			d, err := b.Open(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			devices = append(devices, d)
		}
	}
	return devices
}

// connect returns two connections to each other.
func connect(t testing.TB, oa, ob share.Options) (a, b *share.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*share.Conn
	for i, o := range []share.Options{oa, ob} {
		f := os.NewFile(uintptr(fds[i]), "socket")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		if ends[i], err = share.New(c.(*net.UnixConn), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ends[i].Close() })
	}
	return ends[0], ends[1]
}

// kinds are the kinds of memory of a device that can be sent.
func kinds(d core.Device) []core.AllocOptions {
	list := []core.AllocOptions{{}}
	if e, ok := core.As[core.MemoryExporter](d); ok {
		for _, t := range e.ExportTypes() {
			list = append(list, core.AllocOptions{Export: t})
		}
	}
	return list
}

const elements = 3000

// written makes a tensor of 0, 1, 2... on a device.
func written(t testing.TB, d core.Device, o core.AllocOptions, first int32) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{elements}, o)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]int32, elements)
	for i := range list {
		list[i] = first + int32(i)
	}
	s, err := core.FromSlice(list, elements)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := d.Copy(t.Context(), nil, x, s); err != nil {
		t.Fatal(err)
	}
	return x
}

// check fails unless a tensor on a device has the elements first, first+1, ...
func check(t testing.TB, d core.Device, x *core.Tensor, first int32) {
	t.Helper()
	list := make([]int32, elements)
	s, err := core.FromSlice(list, elements)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := d.Copy(t.Context(), nil, s, x); err != nil {
		t.Fatal(err)
	}
	for i, got := range list {
		if got != first+int32(i) {
			t.Errorf("element %d is %d, want %d", i, got, first+int32(i))
			return
		}
	}
}

// Any memory of any device arrives on any device. Memory that a device of the receiver opens is not
// copied by the sender, and not copied at all on the way to the same device.
func TestEveryDeviceToEveryDevice(t *testing.T) {
	senders, receivers := openAll(t), openAll(t)
	a, b := connect(t, share.Options{Devices: senders}, share.Options{Devices: receivers})
	for _, from := range senders {
		for _, o := range kinds(from) {
			for _, to := range receivers {
				t.Run(fmt.Sprintf("%v as %v to %v", from.ID(), o.Export, to.ID()), func(t *testing.T) {
					x := written(t, from, o, 5)
					for round := range 2 {
						sent, err := a.Send(t.Context(), x)
						if err != nil {
							t.Fatal(err)
						}
						y, received, err := b.Receive(t.Context(), to)
						if err != nil {
							t.Fatal(err)
						}
						if y.DeviceID() != to.ID() {
							t.Errorf("it is on %v", y.DeviceID())
						}
						check(t, to, y, 5)
						if o.Export == core.HandleMemFD || o.Export == core.HandleOpaqueFD {
							if sent.BytesCopied != 0 || sent.Mechanism != exchange.Map || sent.Opened != (round == 0) {
								t.Errorf("round %d: sent: %v", round, sent)
							}
							if from.ID() == to.ID() && (received.BytesCopied != 0 || received.Opened != (round == 0)) {
								t.Errorf("round %d: received: %v", round, received)
							}
						}
						if sent.BytesCopied != 0 && len(sent.Refused()) == 0 {
							t.Errorf("it was copied, and the report does not say why: %v", sent)
						}
						y.Close()
					}
					x.Close()
					if err := a.WaitReleased(t.Context()); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
	if err := a.Err(); err != nil {
		t.Error(err)
	}
}

// Memory that the receiver can only read arrives on any device, without a copy on the host.
func TestReadOnlyMemoryToEveryDevice(t *testing.T) {
	senders, receivers := openAll(t), openAll(t)
	a, b := connect(t, share.Options{Devices: senders, ReadOnly: true}, share.Options{Devices: receivers})
	host := senders[slices.IndexFunc(senders, func(d core.Device) bool { return d.ID() == core.CPU })]
	x := written(t, host, core.AllocOptions{Export: core.HandleMemFD}, 5)
	defer x.Close()
	for _, to := range receivers {
		t.Run(to.ID().String(), func(t *testing.T) {
			sent, err := a.Send(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			y, received, err := b.Receive(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			defer y.Close()
			check(t, to, y, 5)
			if sent.BytesCopied != 0 || to.ID() == core.CPU && received.BytesCopied != 0 {
				t.Errorf("sent: %v; received: %v", sent, received)
			}
			if !y.ReadOnly() {
				t.Errorf("it can be written; received: %v", received)
			}
		})
	}
}
