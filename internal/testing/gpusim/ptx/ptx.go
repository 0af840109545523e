//go:build linux && cgo

package ptx

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra
// #include "ptx.h"
// #include <stdlib.h>
//
// // A piece of simulated memory.
// typedef struct {
//     uint64_t address, size;
//     void *host;
//     int read_only;
// } piece;
//
// typedef struct {
//     const piece *list;
//     size_t count;
//     ptx_access *accesses; // told by note; the caller frees them
//     size_t noted, room;
//     int lost;             // no memory for more of them
// } pieces;
//
// static void note(void *ctx, const ptx_access *access) {
//     pieces *all = ctx;
//     if (all->noted == all->room) {
//         size_t room = all->room == 0 ? 1 << 10 : 2 * all->room;
//         ptx_access *grown = realloc(all->accesses, room * sizeof *grown);
//         if (grown == NULL) {
//             all->lost = 1;
//             return;
//         }
//         all->accesses = grown;
//         all->room = room;
//     }
//     all->accesses[all->noted++] = *access;
// }
//
// static void set_note(ptx_module *m, int on) { ptx_set_trace(m, on ? note : NULL); }
//
// static void *find_piece(void *ctx, uint64_t address, size_t bytes, int write) {
//     const pieces *all = ctx;
//     for (size_t i = 0; i < all->count; i++) {
//         const piece *p = &all->list[i];
//         if (address < p->address || bytes > p->size || address - p->address > p->size - bytes) continue;
//         return write && p->read_only ? NULL : (char *)p->host + (address - p->address);
//     }
//     return NULL;
// }
//
// static int run_on_pieces(const ptx_function *f, void *const *params, const unsigned *grid,
//                          const unsigned *block, pieces *all, char *log, size_t room) {
//     return ptx_run(f, params, grid, block, find_piece, all, log, room);
// }
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// The errors of a launch, for errors.Is.
var (
	ErrBadLaunch  = errors.New("bad launch")
	ErrBadAccess  = errors.New("bad access")
	ErrMisaligned = errors.New("misaligned address")
	ErrFailed     = errors.New("kernel failed")
	ErrEndless    = errors.New("kernel does not end")
	ErrNoMemory   = errors.New("out of host memory")
)

var statuses = map[C.int]error{
	C.PTX_BAD_LAUNCH: ErrBadLaunch,
	C.PTX_BAD_ACCESS: ErrBadAccess,
	C.PTX_MISALIGNED: ErrMisaligned,
	C.PTX_FAILED:     ErrFailed,
	C.PTX_ENDLESS:    ErrEndless,
	C.PTX_NO_MEMORY:  ErrNoMemory,
}

const logRoom = 512

// Module is PTX that was parsed. The caller of [Load] closes it once, after the last use of its functions.
type Module struct{ handle *C.ptx_module }

// Load parses PTX. The error names the line, and what is wrong or not covered.
func Load(text string) (*Module, error) {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	var log [logRoom]C.char
	m := C.ptx_load(c, &log[0], logRoom)
	if m == nil {
		return nil, errors.New(C.GoString(&log[0]))
	}
	return &Module{m}, nil
}

// Close frees the module and its functions.
func (m *Module) Close() {
	C.ptx_unload(m.handle)
	m.handle = nil
}

// SetPatience sets how many branches a thread may take before a launch fails with [ErrEndless].
func (m *Module) SetPatience(branches uint64) {
	C.ptx_set_patience(m.handle, C.uint64_t(branches))
}

// Function is an entry of a module. It is valid until the module is closed.
type Function struct {
	handle *C.ptx_function
	module *Module
}

// Function returns the entry with a name.
func (m *Module) Function(name string) (Function, error) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	f := C.ptx_find(m.handle, c)
	if f == nil {
		return Function{}, fmt.Errorf("there is no entry %s", name)
	}
	return Function{f, m}, nil
}

// ParamSizes returns the size of each parameter in bytes.
func (f Function) ParamSizes() []int {
	var sizes []int
	for {
		n := int(C.ptx_param_size(f.handle, C.int(len(sizes))))
		if n == 0 {
			return sizes
		}
		sizes = append(sizes, n)
	}
}

// MaxThreads returns how many threads a block may have.
func (f Function) MaxThreads() int { return int(C.ptx_max_threads(f.handle)) }

// SharedSize returns how many bytes of shared memory a block has.
func (f Function) SharedSize() int { return int(C.ptx_shared_size(f.handle)) }

// Memory is a range of memory at an address of the simulated device.
type Memory struct {
	Address  uint64
	Bytes    []byte // not empty; a kernel reads and writes it while Run runs
	ReadOnly bool
}

// Run launches a function with the bytes of each parameter, and waits for it. An access outside of memory
// fails with [ErrBadAccess]. The error wraps one of the sentinels, and says which thread failed at which
// line.
func (f Function) Run(grid, block [3]uint32, memory []Memory, params ...[]byte) error {
	_, err := f.run(false, grid, block, memory, params)
	return err
}

// Access is an access of a thread to global or shared memory.
type Access struct {
	Address       uint64 // in shared memory from its start
	Block, Thread int    // in the order of their numbers, x first
	Line          int    // of the text: the instruction
	Bytes         int
	Write, Shared bool
}

// Trace is like [Function.Run], and returns all accesses in the order in which they were made. No other function of
// the module may run at the same time.
func (f Function) Trace(grid, block [3]uint32, memory []Memory, params ...[]byte) ([]Access, error) {
	C.set_note(f.module.handle, 1)
	defer C.set_note(f.module.handle, 0)
	return f.run(true, grid, block, memory, params)
}

func (f Function) run(trace bool, grid, block [3]uint32, memory []Memory, params [][]byte) ([]Access, error) {
	sizes := f.ParamSizes()
	if len(params) != len(sizes) {
		return nil, fmt.Errorf("%w: %d parameters, the function has %d", ErrBadLaunch, len(params), len(sizes))
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pointers := make([]unsafe.Pointer, len(params)+1)
	for i, p := range params {
		if len(p) != sizes[i] {
			return nil, fmt.Errorf("%w: parameter %d has %d bytes, not %d", ErrBadLaunch, i, sizes[i], len(p))
		}
		pointers[i] = unsafe.Pointer(&p[0])
		pinner.Pin(&p[0])
	}
	list := make([]C.piece, len(memory)+1)
	for i, m := range memory {
		pinner.Pin(&m.Bytes[0])
		list[i] = C.piece{address: C.uint64_t(m.Address), size: C.uint64_t(len(m.Bytes)), host: unsafe.Pointer(&m.Bytes[0])}
		if m.ReadOnly {
			list[i].read_only = 1
		}
	}
	pinner.Pin(&list[0])
	all := C.pieces{list: &list[0], count: C.size_t(len(memory))}
	defer func() { C.free(unsafe.Pointer(all.accesses)) }()
	var log [logRoom]C.char
	status := C.run_on_pieces(f.handle, &pointers[0], (*C.uint)(unsafe.Pointer(&grid)), (*C.uint)(unsafe.Pointer(&block)), &all, &log[0], logRoom)
	if status != C.PTX_OK {
		return nil, fmt.Errorf("%w: %s", statuses[status], C.GoString(&log[0]))
	}
	if all.lost != 0 {
		return nil, fmt.Errorf("%w: for what was traced", ErrNoMemory)
	}
	var accesses []Access
	if trace {
		for _, a := range unsafe.Slice(all.accesses, all.noted) {
			accesses = append(accesses, Access{
				Address: uint64(a.address), Block: int(a.block), Thread: int(a.thread), Line: int(a.line),
				Bytes: int(a.bytes), Write: bool(a.write), Shared: bool(a.shared),
			})
		}
	}
	return accesses, nil
}
