package backendkit

import (
	"slices"
	"sync"
)

// CloseNotifier is implemented by a [core.Device] that calls hooks when it is about to close.
// A cache that keeps memory of the device open uses a hook to free that memory.
type CloseNotifier interface {
	// BeforeClose registers f. The device's Close calls f before it checks whether
	// memory or streams are open. f may free memory of the device, and must not call
	// Close. cancel removes f; it does not wait for a call of f that is running.
	BeforeClose(f func()) (cancel func())
}

// CloseHooks implements [CloseNotifier] for a device that embeds it. The device's Close
// calls RunCloseHooks first, and holds no lock then that freeing memory needs. The zero
// value is ready for use.
type CloseHooks struct {
	mu    sync.Mutex
	hooks []*func()
}

// BeforeClose implements [CloseNotifier].
func (h *CloseHooks) BeforeClose(f func()) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hook := &f
	h.hooks = append(h.hooks, hook)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hooks = slices.DeleteFunc(h.hooks, func(x *func()) bool { return x == hook })
	}
}

// RunCloseHooks calls every hook, in the reverse order of registration. The hooks stay
// registered until they are cancelled.
func (h *CloseHooks) RunCloseHooks() {
	h.mu.Lock()
	hooks := slices.Clone(h.hooks)
	h.mu.Unlock()
	for _, hook := range slices.Backward(hooks) {
		if *hook != nil {
			(*hook)()
		}
	}
}
