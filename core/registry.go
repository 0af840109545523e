package core

import (
	"context"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/internal/buildtag"
)

// Registry holds the backends of a program. The zero Registry is empty and ready for use. A
// Registry is safe for concurrent use. It uses no global state.
type Registry struct {
	mu       sync.RWMutex
	backends []Backend // in the order of registration
}

// Register adds a backend. It returns ErrInvalid if r is nil, or b is nil or has no name, and
// ErrExists if a backend of that name is registered.
func (r *Registry) Register(b Backend) error {
	if err := r.exists("Register"); err != nil {
		return err
	}
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

// exists returns ErrInvalid if r is nil.
func (r *Registry) exists(call string) error {
	if r == nil {
		return Errorf(ErrInvalid, "core", call, "the registry is nil: make one by New of backends/all, or by new(core.Registry)")
	}
	return nil
}

// Backends returns the backends in the order of registration, none if r is nil.
func (r *Registry) Backends() []Backend {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.backends)
}

// Backend returns the backend of the given name, ErrNotSupported if there is none, or
// ErrInvalid if r is nil.
func (r *Registry) Backend(name string) (Backend, error) {
	if err := r.exists("Backend"); err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, b := range r.backends {
		if b.Name() == name {
			return b, nil
		}
	}
	how := "register it by Registry.Register"
	if tag := buildtag.How(name); tag != "" {
		how = tag + ", and make the registry by New of backends/all, or register the backend"
	}
	return nil, Errorf(ErrNotSupported, "core", "Backend", "the registry has no backend %q: %s", name, how)
}

// Open opens a device through the backend that serves its type. The caller owns the device
// and closes it. Open returns ErrNotSupported if there is no such backend, ErrInvalid if r is
// nil, or the error of [Backend.Open].
func (r *Registry) Open(ctx context.Context, id DeviceID) (Device, error) {
	if err := r.exists("Open"); err != nil {
		return nil, err
	}
	b, err := r.Backend(id.Type.BackendName())
	if err != nil {
		return nil, err
	}
	return b.Open(ctx, id)
}
