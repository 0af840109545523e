// Package driver calls CUDA's driver API, for package cudalike. It uses gorgonia.org/cu, and functions of its own for
// what cu lacks and for what must be fast. The interfaces of cudalike document its methods.
//
// A method makes the context current, and restores the previous one, which may be another library's. Any goroutine
// may therefore call it. No method uses the legacy stream, and none invalidates the capture of a stream by another
// library (cuThreadExchangeStreamCaptureMode).
package driver
