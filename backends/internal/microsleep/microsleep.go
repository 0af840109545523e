// Package microsleep sleeps for microseconds. In a process that is otherwise idle, time.Sleep returns up to a
// millisecond late, since Go waits for its timers together with files, in whole milliseconds (runtime,
// netpoll_epoll.go). A poll that waits for a device needs more precision.
package microsleep

import (
	"runtime"
	"sync/atomic"
	"time"
)

// longest is the time up to which a sleep is precise: a millisecond matters little in a longer one.
const longest = 5 * time.Millisecond

// napping is the number of short sleeps. A precise one holds a thread, so there are no more of these than
// processors.
var napping atomic.Int32

// Sleep is time.Sleep with a precision of about ten microseconds, on Linux and if not too many goroutines
// sleep at once. It is meant for polls: a signal, such as Go sends to its threads, ends a sleep of at most five
// milliseconds early.
func Sleep(d time.Duration) {
	if d > longest {
		time.Sleep(d)
		return
	}
	defer napping.Add(-1)
	if int(napping.Add(1)) > runtime.GOMAXPROCS(0) {
		time.Sleep(d)
		return
	}
	precise(d)
}
