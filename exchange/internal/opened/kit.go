package opened

import "github.com/dlx-go/dlx/core"

// Package backendkit documents the interfaces of this file, for those who implement them. It is not imported here,
// because it is for backends.

type closeNotifier interface {
	BeforeClose(f func()) (cancel func())
}

type orderedOwner interface {
	core.Owner
	FreeAfter(pending []core.Event)
}
