package share

import (
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// The memory of a tensor that was closed while work on it was unfinished belongs to its device alone when the connection has ended: the device
// waits for the work when it is closed, and closes without an error.
func TestDevicesCloseBehindUnfinishedWork(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for name, tensor := range map[string]func(t *testing.T, a, b *Conn, sender, receiver core.Device) (*core.Tensor, func() error){
		"of a tensor": func(t *testing.T, a, b *Conn, sender, receiver core.Device) (*core.Tensor, func() error) {
			send(t, a, shareable(t, sender, 16, memfd))
			x, _ := receive(t, b, receiver)
			return x, b.Close
		},
		"of a frame": func(t *testing.T, a, b *Conn, sender, receiver core.Device) (*core.Tensor, func() error) {
			p := publish(t, a, Ring{Slots: 1, Mode: Queue, Device: sender})
			s := subscribe(t, b, SubscribeOptions{Device: receiver})
			put(t, p, 1)
			f, err := s.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return f.Tensor(), s.Close
		},
		"of a slot": func(t *testing.T, _, b *Conn, _, device core.Device) (*core.Tensor, func() error) {
			p := publish(t, b, Ring{Slots: 1, Mode: Queue, Device: device})
			x, err := p.Loan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return x, p.Close
		},
	} {
		t.Run(name, func(t *testing.T) {
			sender := host(t)
			d, err := cpu.New().Open(t.Context(), core.CPU)
			if err != nil {
				t.Fatal(err)
			}
			a, b := connected(t, of(sender), patient(of(d), time.Millisecond))
			x, end := tensor(t, a, b, sender, d)
			work := stream.NewEvent()
			buffer(t, x).Used(work)
			_ = x.Close()
			_ = end()
			_ = b.Close() // which waits for as long as its patience
			closed := make(chan error)
			go func() {
				err := d.Close()
				if done, _ := work.Done(); !done {
					t.Error("the device was closed before the work was done")
				}
				closed <- err
			}()
			time.Sleep(100 * time.Millisecond) // for less than that it waits for what others have open
			work.Complete(nil)
			if err := <-closed; err != nil {
				t.Error(err)
			}
		})
	}
}
