//go:build race && cgo && !windows

package dlpack

// raceDetector is on where the program is. It does not see the order that C
// makes between an export and the return of the node, so it gets one in Go.
const raceDetector = true
