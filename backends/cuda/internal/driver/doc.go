// Package driver calls CUDA's driver API: by gorgonia.org/cu what that has and what is
// seldom called, by functions of its own what cu lacks and what must be fast.
//
// The context of a [Context]'s call is current for the time of the call only, so that
// any goroutine may call, and the thread is as before: it may be somebody's who has a
// context of his own current. No call here touches the legacy stream, or
// invalidates a capture of somebody else's (cuThreadExchangeStreamCaptureMode).
package driver
