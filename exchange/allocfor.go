package exchange

import "github.com/dlx-go/dlx/core"

// AllocFor says how to allocate memory on from so that a later move to next shares
// it, where plain memory of from might not be shared: as memory that next imports,
// or that the host sees and next uses from there. It is what [Options.Alloc] should
// be for a move to from that goes on to next. Where plain memory does, or nothing
// helps, it is the zero value.
func AllocFor(from, next core.Device) core.AllocOptions {
	if from == nil || next == nil || from == next || from.ID().Type.HostAccessible() {
		return core.AllocOptions{}
	}
	fp, np := from.Properties(), next.Properties()
	toHost := next.ID().Type.HostAccessible()
	if types, reason := commonTypes(from, next, &fp, &np); !toHost && reason == nil {
		return core.AllocOptions{Export: types[0]}
	}
	if has[core.HostViewer](from, &fp) && (toHost || has[core.HostMapper](next, &np)) {
		return core.AllocOptions{HostVisible: true}
	}
	return core.AllocOptions{}
}
