package stream

import "github.com/dlx-go/dlx/core"

// Package backendkit documents the interfaces of this file, for those who implement them. It is not imported here,
// because it is for backends.

type eventWrapper interface {
	core.Event
	Unwrap() core.Event
}

type settledWaiter interface {
	WaitSettled(e core.Event) error
}

type hostWorker interface {
	Enqueue(work func() error) error
}
