// Package driver calls CUDA's driver API, for package cudalike: by gorgonia.org/cu what that
// has and what is seldom called, by functions of its own what cu lacks and what must be fast.
// Its methods are documented at the interfaces of cudalike.
//
// The context of a call is current for the time of the call only, so that any goroutine may
// call, and the thread is as before: another library may have made its own context current.
// No call here touches the legacy stream, or invalidates a capture that another library has
// begun (cuThreadExchangeStreamCaptureMode).
package driver
