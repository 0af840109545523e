package exchange

import "github.com/dlx-go/dlx/core"

// AllocFor returns options to allocate memory on from, so that a later move of the memory
// to next need not copy it. The memory is then one that next can import, or one that the
// host can access and next can map. If plain memory of from can be shared, or no option
// helps, AllocFor returns the zero value. To prepare a move to from and then to next, set
// [Options.Alloc] to the result.
func AllocFor(from, next core.Device) core.AllocOptions {
	if from == nil || next == nil || from == next || from.ID().Type.HostAccessible() {
		return core.AllocOptions{}
	}
	fp, np := from.Properties(), next.Properties()
	toHost := next.ID().Type.HostAccessible()
	if types, reason := commonTypes(from, next, &fp, &np); !toHost && reason == nil {
		return core.AllocOptions{Export: types[0]}
	}
	if has[core.HostViewer](from, &fp) && (toHost || mapReason(next, &np, viewOf(core.Memory{ID: from.ID()})) == nil) {
		return core.AllocOptions{HostVisible: true}
	}
	return core.AllocOptions{}
}
