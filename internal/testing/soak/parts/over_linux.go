package parts

import (
	"context"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// HasPeers reports whether tensors can be passed to other processes.
const HasPeers = true

// Sockets returns the two ends of a connection: one for Connect, and a descriptor for another process. The caller owns
// both.
func Sockets() (mine *net.UnixConn, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	if mine, err = Socket(fds[0]); err != nil {
		_ = unix.Close(fds[1])
		return nil, -1, err
	}
	return mine, fds[1], nil
}

// Socket makes a connection of a descriptor, which it takes.
func Socket(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// ThereAndBack passes a tensor to a peer in this process, which lives as long as the call, and returns what comes back, for
// programs that are printed.
func ThereAndBack(ctx context.Context, x *core.Tensor, d core.Device, meanwhile func() error) (*core.Tensor, error) {
	devices := []core.Device{d}
	if of := x.Device(); of != nil && of != d {
		devices = append(devices, of)
	}
	mine, theirs, err := Sockets()
	if err != nil {
		return nil, err
	}
	defer mine.Close()
	other, err := Socket(theirs)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	p, err := Connect(mine, devices)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = Answer(context.Background(), other, devices) // ends with the connection
		close(ended)
	}()
	y, _, _, err := p.Over(ctx, x, d, meanwhile)
	_ = p.Close()
	<-ended
	return y, err
}
