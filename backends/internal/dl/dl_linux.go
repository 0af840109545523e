//go:build linux && cgo

package dl

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The loader keeps its last error by thread, so each call fetches it at once, as
// a copy that the caller frees.
static char *dlx_dl_error(void) {
	const char *e = dlerror();
	return strdup(e ? e : "no reason given");
}

static void *dlx_dl_open(const char *name, char **why) {
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!handle) *why = dlx_dl_error();
	return handle;
}

static void *dlx_dl_symbol(void *handle, const char *name) {
	return dlsym(handle, name);
}

static void dlx_dl_close(void *handle) { dlclose(handle); }
*/
import "C"

import (
	"strings"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// Library is an open shared library. It is safe for concurrent use.
type Library struct {
	backend string
	name    string

	mu     sync.Mutex
	handle unsafe.Pointer // nil once it is closed
}

// Open loads the first of names that the system's loader finds. The loader searches for names without a slash
// as it does for linked libraries. backend is named in errors. The caller owns the library; most callers keep
// it for the life of the process, since few drivers survive being unloaded. Open fails with
// core.ErrNotSupported and the loader's reason for each name if none can be loaded, and with core.ErrInvalid
// if a name is empty or contains a zero byte.
func Open(backend string, names ...string) (*Library, error) {
	var reasons []string
	for _, name := range names {
		if name == "" || strings.ContainsRune(name, 0) {
			return nil, core.Errorf(core.ErrInvalid, backend, "dlopen", "%q is not a valid name of a library", name)
		}
		handle, why := open(name)
		if handle != nil {
			return &Library{backend: backend, name: name, handle: handle}, nil
		}
		reasons = append(reasons, why)
	}
	return nil, core.Errorf(core.ErrNotSupported, backend, "dlopen", "no library could be loaded: %s", strings.Join(reasons, "; "))
}

func open(name string) (handle unsafe.Pointer, why string) {
	defer KeepHandlers()()
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var reason *C.char
	if handle = C.dlx_dl_open(cname, &reason); handle == nil {
		why = C.GoString(reason)
		C.free(unsafe.Pointer(reason))
	}
	return handle, why
}

// Name returns the name under which the library was found.
func (l *Library) Name() string { return l.name }

// Lookup returns the address of a symbol, or 0 if the library does not have it or was closed. The address is
// valid until Close.
func (l *Library) Lookup(symbol string) uintptr {
	cname := C.CString(symbol)
	defer C.free(unsafe.Pointer(cname))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == nil { // dlsym would search the whole program
		return 0
	}
	return uintptr(C.dlx_dl_symbol(l.handle, cname))
}

// Resolve stores the address of every symbol of the table. It fails with core.ErrVersion if a symbol that is
// not optional is missing. The error names the symbol, and the version of the API that introduced it.
func (l *Library) Resolve(table []Symbol) error {
	for _, s := range table {
		*s.Address = l.Lookup(s.Name)
		if *s.Address != 0 || s.Optional {
			continue
		}
		since := ""
		if s.Since != "" {
			since = ", which the API has since version " + s.Since
		}
		return core.Errorf(core.ErrVersion, l.backend, "dlsym", "%s has no function %s%s: install a newer driver", l.name, s.Name, since)
	}
	return nil
}

// Close unloads the library, unless other code in the process has it open too. A second Close does nothing.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle != nil {
		defer KeepHandlers()()
		C.dlx_dl_close(l.handle)
		l.handle = nil
	}
	return nil
}
