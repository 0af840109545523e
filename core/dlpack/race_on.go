//go:build race && cgo && !windows

package dlpack

// raceDetector is set if the race detector is on. The detector does not see that C code
// orders the return of a node after its export, so slot.handed shows it that order.
const raceDetector = true
