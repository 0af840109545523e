package microsleep

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// precise sleeps with a timer slack of one nanosecond instead of 50 microseconds (prctl(2),
// PR_SET_TIMERSLACK), and gives the thread its default back.
func precise(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
}
