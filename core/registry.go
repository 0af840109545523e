package core

import (
	"context"
	"slices"
	"sync"
)

// Registry holds the backends of a program. It is a value without global state;
// the zero Registry is empty and ready. It is safe for concurrent use.
type Registry struct {
	mu       sync.RWMutex
	backends []Backend // in the order of registration
}

// Register adds a backend. It fails with ErrExists if the name is taken.
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

// Backends lists the backends in the order of their registration.
func (r *Registry) Backends() []Backend {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.backends)
}

// Backend finds a backend by name. It fails with ErrNotSupported if the program has none of that name.
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

// Open opens a device through the backend that serves its type. The caller owns
// the device and closes it.
func (r *Registry) Open(ctx context.Context, id DeviceID) (Device, error) {
	b, err := r.Backend(id.Type.BackendName())
	if err != nil {
		return nil, err
	}
	return b.Open(ctx, id)
}
