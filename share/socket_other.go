//go:build !linux

package share

import (
	"io/fs"
	"net"
	"os"
	"runtime"

	"github.com/dlx-go/dlx/core"
)

// network is the kind of sockets, which this system does not have.
const network = "unixpacket"

// available returns why the package does not work on this system. Every function of the API
// calls it before it needs the functions below.
func available(call string) error {
	return core.Errorf(core.ErrNotSupported, "share", call, "package share works on Linux, and this system is %s", runtime.GOOS)
}

type sockets struct{ *net.UnixConn }

func newSockets(*net.UnixConn) (*sockets, error) { return nil, available("New") }

func checkSocket(*net.UnixConn) (Peer, error) { return Peer{}, available("New") }

func systemError(_ error, call string, _ error, _ string, _ ...any) error { return available(call) }

func (s *sockets) read([]byte) (int, []int, error) { return 0, nil, available("recvmsg") }

func (s *sockets) try([]byte, int) (bool, error) { return false, available("sendmsg") }

func (s *sockets) write([]byte, int) error { return available("sendmsg") }

func (s *sockets) hungUp() bool { return true }

func closeFDs([]int) {}

func checkFile(core.ExternalMemory) (int, error) { return 0, available("fstat") }

func (c *Conn) checkSemaphore(core.ExternalSemaphore) error { return available("fstat") }

func seal(*core.ExternalMemory, bool, bool) (bool, error) { return false, available("fcntl") }

func isReadOnly(core.ExternalMemory, int) bool { return false }

func listen(string, fs.FileMode) (*net.UnixListener, os.FileInfo, error) {
	return nil, nil, available("Listen")
}

func dialHint(string, error) string { return "" }

func isBroken(error) bool { return false }

func isFull(error) bool { return false }
