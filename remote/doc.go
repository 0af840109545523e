// Package remote moves tensors between machines by UCX. [Listen] and [Dial] make a connection, [Conn.Send] and
// [Conn.Receive] pass tensors through it.
//
// A connection has two parts. The control connection is TLS 1.3 over TCP: both sides authenticate each other by
// certificates or by a token, and agree on limits. The elements go through UCX, by the fastest transport that both machines
// have, such as InfiniBand, shared memory or TCP. UCX encrypts and authenticates nothing: use it on a network that you trust.
//
// The package works on Linux with cgo and the build tag ucx, and opens libucp.so.0 when it is used first. Otherwise its
// functions return core.ErrNotSupported. docs/remote.md describes the package and its messages, and DESIGN.md the reasons.
package remote

import "github.com/dlx-go/dlx/remote/internal/ucx"

// Available returns nil if this program can use UCX, and otherwise a core.ErrNotSupported with what it needs, or a
// core.ErrVersion if the library is too old.
func Available() error { return ucx.Load() }

// Version returns the version of the UCX library, such as "1.13.1". It is "" if [Available] returns an error.
func Version() string {
	if ucx.Load() != nil {
		return ""
	}
	return ucx.Version()
}
