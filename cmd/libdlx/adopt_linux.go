//go:build cgo

package main

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// adopt makes a connection of a socket of the program. On success it has closed fd, of which the connection has a
// duplicate. On failure fd is as it was.
func adopt(fd int, options share.Options) (*share.Conn, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, origin, "dlx_share_adopt", "fd is %d, which is no open descriptor: %v", fd, err)
	}
	c, err := adoptCopy(fd, options)
	if err != nil { // FileConn has changed the mode, which both descriptors have in common
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
		return nil, err
	}
	_ = unix.Close(fd)
	return c, nil
}

// duplicate returns a new descriptor of what fd stands for.
func duplicate(fd int, call string) (int, error) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, core.Errorf(core.ErrOutOfMemory, origin, call, "descriptor %d cannot be duplicated: %v", fd, err)
	}
	return copied, nil
}

// adoptCopy makes a connection of a duplicate of fd.
func adoptCopy(fd int, options share.Options) (*share.Conn, error) {
	copied, err := duplicate(fd, "dlx_share_adopt")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(copied), "socket")
	defer f.Close()
	socket, err := net.FileConn(f)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, origin, "dlx_share_adopt", "descriptor %d is no connected socket: %v", fd, err)
	}
	unixSocket, ok := socket.(*net.UnixConn)
	if !ok {
		_ = socket.Close()
		return nil, core.Errorf(core.ErrInvalid, origin, "dlx_share_adopt", "descriptor %d is a socket of %s: pass one end of a socketpair of Unix sockets", fd, socket.LocalAddr().Network())
	}
	c, err := share.New(unixSocket, options)
	if err != nil {
		_ = socket.Close()
	}
	return c, err
}
