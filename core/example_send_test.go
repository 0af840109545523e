//go:build unix

package core_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// send sends m to another process. The caller still owns m, and can close it when send has returned.
func send(c *net.UnixConn, m core.ExternalMemory) error {
	data, fds, err := m.MarshalWithFDs() // the descriptors still belong to m: do not close them
	if err != nil {
		return err
	}
	_, _, err = c.WriteMsgUnix(data, syscall.UnixRights(fds...), nil)
	return err
}

// receive receives what send sent. The caller must close the result, or import it.
func receive(c *net.UnixConn) (core.ExternalMemory, error) {
	data, control := make([]byte, 512), make([]byte, 128)
	n, controls, _, _, err := c.ReadMsgUnix(data, control)
	if err != nil {
		return core.ExternalMemory{}, err
	}
	var fds []int // duplicates, which this process owns
	messages, err := syscall.ParseSocketControlMessage(control[:controls])
	for i := range messages {
		received, failed := syscall.ParseUnixRights(&messages[i])
		fds, err = append(fds, received...), errors.Join(err, failed)
	}
	var m core.ExternalMemory
	if err == nil {
		m, err = core.UnmarshalExternalMemory(data[:n], fds)
	}
	if err != nil { // the result has not taken the descriptors
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}
	return m, err
}

// One process exports memory and sends it over a Unix socket. Another one receives it.
func ExampleExternalMemory_MarshalWithFDs() {
	if err := sendMemory(context.Background(), coretest.NewBackend(coretest.Options{Opaque: true})); err != nil {
		fmt.Println(err)
	}
	// Output: received: opaque_fd, 1024 bytes
}

func sendMemory(ctx context.Context, backend core.Backend) error {
	d, err := backend.Open(ctx, core.DeviceID{Type: core.DeviceWebGPU}) // simulated
	if err != nil {
		return err
	}
	defer d.Close()
	t, err := core.Empty(ctx, d, core.TypeFloat32, []int64{256}, core.AllocOptions{Export: core.HandleOpaqueFD})
	if err != nil {
		return err
	}
	defer t.Close()
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	exported, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		return err
	}
	defer exported.Close() // it is still ours after send

	here, there, err := connected() // in a real program, there is in another process
	if err != nil {
		return err
	}
	defer here.Close()
	defer there.Close()
	if err := send(here, exported); err != nil {
		return err
	}
	received, err := receive(there)
	if err != nil {
		return err
	}
	defer received.Close() // does nothing after a successful import
	fmt.Printf("received: %v, %d bytes\n", received.Handle.Type(), received.Length)
	return nil
}

// connected returns two connected Unix sockets.
func connected() (a, b *net.UnixConn, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, failed := net.FileConn(f) // duplicates the descriptor
		err = errors.Join(err, failed, f.Close())
		if failed == nil {
			conns[i] = c.(*net.UnixConn)
		}
	}
	if err != nil {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, nil, err
	}
	return conns[0], conns[1], nil
}
