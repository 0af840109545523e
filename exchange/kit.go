package exchange

import "github.com/dlx-go/dlx/core"

// Package backendkit documents the interfaces of this file, for those who implement them. It is not imported here,
// because it is for backends.

type hostWorker interface {
	Enqueue(work func() error) error
}

type shareChecker interface {
	CanExport(m core.Memory, t core.HandleType) error
	CanView(m core.Memory) error
}

type exportTrier interface {
	TryExport(b *core.Buffer, t core.HandleType) error
}
