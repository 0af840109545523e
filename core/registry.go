package core

import (
	"context"
	"slices"
	"sync"
)

// Registry holds the backends of a program. The zero Registry is empty and ready for use. A
// Registry is safe for concurrent use. It uses no global state.
type Registry struct {
	mu       sync.RWMutex
	backends []Backend // in the order of registration
}

// Register adds a backend. It returns ErrInvalid if b is nil or has no name, and ErrExists
// if a backend of that name is registered.
func (r *Registry) Register(b Backend) error {
	if b == nil || b.Name() == "" {
		return Errorf(ErrInvalid, "core", "Register", "the backend is nil or has no name")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.backends, func(c Backend) bool { return c.Name() == b.Name() }) {
		return Errorf(ErrExists, "core", "Register", "backend %q is registered", b.Name())
	}
	r.backends = append(r.backends, b)
	return nil
}

// Backends returns the backends in the order of registration.
func (r *Registry) Backends() []Backend {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.backends)
}

// Backend returns the backend of the given name, or ErrNotSupported if there is none.
func (r *Registry) Backend(name string) (Backend, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, b := range r.backends {
		if b.Name() == name {
			return b, nil
		}
	}
	return nil, Errorf(ErrNotSupported, "core", "Backend", "this program was built without the backend %q", name)
}

// Open opens a device through the backend that serves its type. The caller owns the device
// and closes it. Open returns ErrNotSupported if there is no such backend, or the error of
// [Backend.Open].
func (r *Registry) Open(ctx context.Context, id DeviceID) (Device, error) {
	b, err := r.Backend(id.Type.BackendName())
	if err != nil {
		return nil, err
	}
	return b.Open(ctx, id)
}
