package core

import (
	"slices"
	"sync"
)

// CloseNotifier is a device that tells before it closes, so that whoever keeps
// memory of it open for later use can give that back.
type CloseNotifier interface {
	// BeforeClose has f called by Close before that looks for what is open. f may
	// free memory of the device; it must not call Close. cancel ends that; it
	// does not wait for a call that is running.
	BeforeClose(f func()) (cancel func())
}

// CloseHooks makes a device that embeds it a [CloseNotifier]: its Close begins
// with RunCloseHooks, without a lock that freeing memory takes. The zero value is
// ready for use.
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

// RunCloseHooks calls every hook, the latest first. Hooks stay until they are cancelled.
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
