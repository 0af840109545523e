package soak

import (
	"slices"
	"time"
)

// Shrink finds few of n steps of a program that still go wrong. wrong runs the steps
// that it is given and reports whether they do. It ends after a while.
func Shrink(n int, within time.Duration, wrong func(keep []bool) bool) []bool {
	end := time.Now().Add(within)
	keep := slices.Repeat([]bool{true}, n)
	for size := max(1, n/2); ; size = max(1, size/2) {
		smaller := false
		for start := 0; start < n; start += size {
			if !slices.Contains(keep[start:min(start+size, n)], true) {
				continue
			}
			if time.Now().After(end) {
				return keep
			}
			without := slices.Clone(keep)
			for i := start; i < min(start+size, n); i++ {
				without[i] = false
			}
			if wrong(without) {
				keep, smaller = without, true
			}
		}
		if size == 1 && !smaller {
			return keep
		}
	}
}
