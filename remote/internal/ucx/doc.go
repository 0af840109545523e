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
	"slices"
	"strings"
)

const (
	// MaxEager is the largest number of bytes that come with a message. More bytes are fetched by the receiver.
	MaxEager = 8192
	// MaxAddress bounds the address of a worker.
	MaxAddress = 16 << 10
	// MaxHeader bounds the header of a message. Transports may have a lower limit; see [Worker.MaxHeader].
	MaxHeader = 4096
)

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
