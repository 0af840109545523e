//go:build !race && cgo && !windows

package dlpack

// raceDetector is explained in race_on.go.
const raceDetector = false
