//go:build !linux

package microsleep

import "time"

func precise(d time.Duration) { time.Sleep(d) }
