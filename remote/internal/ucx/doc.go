// Package ucx moves bytes between processes and machines by UCX, whose library libucp.so.0 is opened at run time. It has
// active messages only: a [Worker] sends a header with bytes to its peer, and the peer decides where the bytes go before
// they move. Memory that a peer may read or write by itself is never registered, since UCX over TCP does not check the
// ranges of such accesses.
//
// No callback of UCX calls Go. The callbacks write what has happened into memory of C, and Go reads it after each call
// that makes progress. The handler of a worker's arrivals runs on whichever goroutine has made that progress.
//
// The package works on Linux with cgo and the build tag ucx. In other builds [Load] fails with core.ErrNotSupported.
package ucx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

const (
	// MaxEager is the largest number of bytes that come with a message. More bytes are fetched by the receiver.
	MaxEager = 8192
	// MaxAddress bounds the address of a worker.
	MaxAddress = 16 << 10
	// MaxHeader bounds the header of a message. Transports may have a lower limit; see [Worker.MaxHeader].
	MaxHeader = 4096
	// TokenSize is the number of bytes of a token; see [Handler].
	TokenSize = 16
)

// Memory is a kind of memory.
type Memory int

// The kinds of memory. Host is memory that the processor can address, whoever has allocated it.
const (
	Host Memory = iota
	CUDA
	ROCm
)

// cudaSince is the version whose transport for CUDA needs no current context of the calling thread (NEWS of UCX 1.19.0).
const cudaSince = 19

// knows returns the error of [Knows] for a version of UCX whose context knows the kind, or does not.
func knows(m Memory, known bool, version string) error {
	name := [...]string{"the host", "CUDA", "ROCm"}[m]
	if !known {
		return core.Errorf(core.ErrNotSupported, "ucx", "ucp_context_query", "UCX %s knows no memory of %s here: install its module for %[2]s, and the driver", version, name)
	}
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); m == CUDA && (n != 2 || major == 1 && minor < cudaSince) {
		return core.Errorf(core.ErrNotSupported, "ucx", "ucp_context_query", "UCX %s uses memory of CUDA only on threads with a context of CUDA: install UCX 1.%d or newer", version, cudaSince)
	}
	return nil
}

// LibraryVariable names an environment variable, whose value is opened instead of the system's libucp.
const LibraryVariable = "DLX_UCX_LIBRARY"

// transportsOf finds the names of transports in the text of ucp_ep_print_info, where a lane is
// "lane[0]:  3:sysv/memory.0 md[2] ...".
func transportsOf(text string) []string {
	names := []string{}
	for line := range strings.Lines(text) {
		_, lane, found := strings.Cut(line, "lane[")
		if !found {
			continue
		}
		for _, word := range strings.Fields(lane) {
			_, name, found := strings.Cut(word, ":")
			if transport, _, slash := strings.Cut(name, "/"); found && slash {
				if !slices.Contains(names, transport) {
					names = append(names, transport)
				}
				break
			}
		}
	}
	return names
}
