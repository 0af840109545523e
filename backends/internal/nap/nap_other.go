//go:build !linux

package nap

import "time"

func precise(d time.Duration) { time.Sleep(d) }
