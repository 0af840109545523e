// sim.h is what the files of the simulated driver share.
//
// Three rules hold everywhere:
//   - One lock, sim.mu, guards all state. Every entry point holds it from ENTER to
//     its return; every function here expects it to be held unless it says otherwise.
//   - A function that waits (sim_wait, sim_wait_stream, sim_wait_context) may run the
//     work of any stream and lets go of the lock meanwhile: look handles up again, or
//     hold a reference, if they are used after it.
//   - A handle is never a pointer: sim_handle_* turns one into its object, so that a
//     stale one is found instead of followed.
#ifndef DLX_GPUSIM_SIM_H
#define DLX_GPUSIM_SIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What <cuda.h> declares is what the library exports; all else stays hidden.
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

// SIM_API marks an exported function that <cuda.h> does not declare.
#define SIM_API __attribute__((visibility("default")))

enum { SIM_MAX_DEVICES = 8, SIM_PAGE = 4096, SIM_FRESH = 0xA5 };

typedef struct sim_device sim_device;
typedef struct sim_context sim_context;
typedef struct sim_stream sim_stream;
typedef struct sim_event sim_event;
typedef struct sim_op sim_op;
typedef struct sim_range sim_range;
typedef struct sim_capture sim_capture;
typedef struct sim_pool sim_pool;

// ---- Entry points -------------------------------------------------------------------

// What an entry point needs before its body runs.
enum {
    SIM_ANYTIME = 0,      // nothing: works before cuInit
    SIM_INIT = 1,         // cuInit was called; else CUDA_ERROR_NOT_INITIALIZED
    SIM_CONTEXT = 2 | 1,  // a live context is current, without a sticky error (which is
                          // returned otherwise)
    SIM_RELEASE = 4,      // gives something up: a sticky error or an injected fault does
                          // not keep the body from running, and is what SIM_RESULT
                          // returns, as a driver reports an earlier failure from a call
                          // that did its own work
    SIM_UNSAFE = 8,       // "potentially unsafe" in the words of
                          // cuThreadExchangeStreamCaptureMode: refused, and a capture
                          // invalidated, while one in global mode is under way
    SIM_DRAINS = 16,      // with DLX_GPUSIM_DRAIN_LOCK the body runs when no work is left, and
                          // no other call begins before
};

// sim_scope is one call of an entry point; its end lets the lock go.
typedef struct {
    CUresult result;   // the body must not run unless this is CUDA_SUCCESS
    CUresult late;     // a failure to report after the body ran (SIM_RELEASE)
    const char *call;  // the name without version, for sim_misuse
    sim_context *ctx;  // the current context, when SIM_CONTEXT was asked for
} sim_scope;

sim_scope sim_enter(const char *call, unsigned needs);  // takes the lock
// sim_outer, where set, is the call of another API that the thread is in (hip): the calls of this one that it makes
// count as nothing, no fault is injected into them, and misuse is noted under its name. sim_count_outer, for that
// call, counts it and returns the fault that was injected; known is the name for as long as the library lives.
extern _Thread_local const char *sim_outer;
CUresult sim_count_outer(const char *call, const char **known);
void sim_leave(sim_scope *scope);                       // lets it go
CUresult sim_result(const sim_scope *scope, CUresult result);

// ENTER begins the body of an entry point: takes the lock, counts the call, answers an
// injected fault, checks the needs. It declares `scope`; the lock is let go at whatever
// return comes. The name is written as in the documentation (cuMemAlloc), since # does
// not expand the header's version macros.
//
//   CUresult CUDAAPI cuMemAlloc(CUdeviceptr *out, size_t bytes) {
//       ENTER(cuMemAlloc, SIM_CONTEXT | SIM_UNSAFE);
//       if (out == NULL || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
//       ... scope.ctx ...
//       return CUDA_SUCCESS;
//   }
#define ENTER(name, needs)                                                                   \
    sim_scope scope __attribute__((cleanup(sim_leave), unused)) = sim_enter(#name, (needs)); \
    if (scope.result != CUDA_SUCCESS) return scope.result

// SIM_RESULT is what a SIM_RELEASE entry point returns after its work.
#define SIM_RESULT(code) sim_result(&scope, (code))

// ---- State ---------------------------------------------------------------------------

struct sim_device {
    int ordinal;
    size_t memory;         // bytes there are (DLX_GPUSIM_MEMORY)
    size_t used;           // bytes handed out, pools' reserves included
    sim_context *primary;  // NULL while nobody retains it
    sim_pool *pool;        // made when first asked for
    // Device memory: one sparse memfd mapped twice. Offsets in the file are offsets from
    // either base, so an allocation's place for another process is (memory_fd, address - base).
    int memory_fd;
    uintptr_t base;  // handed out, PROT_NONE
    uint8_t *work;   // the simulator's own view
    size_t arena;    // bytes of address space
    size_t next;     // where the search for space goes on
};

typedef struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;  // something ran, or somebody wants something run
    bool initialised;
    int device_count;
    sim_device devices[SIM_MAX_DEVICES];
    sim_context *contexts;  // all live ones, by next
    uint64_t random;        // state of the seeded generator
    bool hold;              // dlx_gpusim_hold
    bool one_queue;         // DLX_GPUSIM_ONE_QUEUE
    bool drain_lock;        // DLX_GPUSIM_DRAIN_LOCK
    bool draining;          // a call waits for all work, and others wait for it
    bool read_only_host;    // DLX_GPUSIM_READ_ONLY_HOST
    bool reuse;             // DLX_GPUSIM_REUSE
    bool concurrent;        // DLX_GPUSIM_CONCURRENT
    bool lazy;              // DLX_GPUSIM_LAZY
    uint64_t latest;        // ns after which the thread runs what nobody waits for: DLX_GPUSIM_LATEST
    bool dma_buf;           // DLX_GPUSIM_DMA_BUF
} sim_state;

extern sim_state sim;

// A destroyed context stays, without a handle and with nothing in it: a call that let go
// of the lock may still look at it.
struct sim_context {
    CUcontext handle;
    sim_device *device;
    sim_context *next;
    sim_context *gone;  // the context that was destroyed before it
    bool primary;
    unsigned retains;     // of a primary context
    CUresult sticky;      // the error that every later call returns
    sim_stream *legacy;   // made when first used
    sim_stream *streams;  // all of the context, by next; destroyed ones until drained
    sim_event *events;    // all of the context, by next
    uint32_t peers;       // bit d: access to device d's memory is enabled
};

// sim_current_context returns the calling thread's context, NULL where there is none or it was
// destroyed.
sim_context *sim_current_context(void);
// sim_context_is_gone reports that the context which is current on the thread was destroyed.
bool sim_context_is_gone(void);
// sim_context_get looks a handle up; NULL when it is stale.
sim_context *sim_context_get(CUcontext handle);
// sim_device_get checks an ordinal; NULL when there is no such device.
sim_device *sim_device_get(CUdevice ordinal);
// sim_use_device makes the primary context of a device current on the thread, alone. The context lives on, retained
// once by this.
CUresult sim_use_device(sim_device *device);
// sim_reset_device ends the primary context of a device with all that it has, however often it is retained; those who
// retained it release the one that follows.
CUresult sim_reset_device(sim_device *device);
// sim_environment is a number from the environment, within bounds.
long sim_environment(const char *name, long otherwise, long least, long most);
// sim_fail_context gives the context its sticky error (the first one stays).
void sim_fail_context(sim_context *ctx, CUresult code);
uint64_t sim_random(void);
uint64_t sim_now(void);  // CLOCK_MONOTONIC in ns

// ---- Handles -------------------------------------------------------------------------

// What dlx_gpusim_live counts; the names are in control.c.
typedef enum {
    SIM_CONTEXTS,
    SIM_STREAMS,
    SIM_EVENTS,
    SIM_ALLOCATIONS,
    SIM_ASYNC_ALLOCATIONS,
    SIM_HOST_ALLOCATIONS,
    SIM_HOST_BYTES,  // of them
    SIM_MANAGED_ALLOCATIONS,
    SIM_REGISTERED_RANGES,
    SIM_MODULES,
    SIM_GRAPHS,
    SIM_VMM_HANDLES,
    SIM_RESERVATIONS,
    SIM_MAPPINGS,
    SIM_EXTERNAL_MEMORIES,
    SIM_EXTERNAL_BUFFERS,
    SIM_EXTERNAL_SEMAPHORES,
    SIM_IPC_MAPPINGS,
    SIM_GRAPHICS_RESOURCES,
    SIM_PROGRAMS,  // of hiprtc
    SIM_ABANDONED,  // went with their context instead of being destroyed
    SIM_FUNCTIONS,  // handles that nobody destroys: not shown
    SIM_POOLS,
    SIM_KINDS
} sim_kind;

// sim_live counts one more (+1) or one less (-1) of a kind.
void sim_live(sim_kind kind, long change);

// A handle is a number outside every mapping, never handed out twice within thousands
// of reuses of its slot; with DLX_GPUSIM_REUSE the one that was dropped last is the next. sim_handle_new does not count in sim_live.
void *sim_handle_new(sim_kind kind, void *object);  // NULL when memory is out
// sim_handle_get returns the object, or NULL after noting misuse by `call` where the
// handle was destroyed or is of another kind. call NULL: look only.
void *sim_handle_get(sim_kind kind, const void *handle, const char *call);
void sim_handle_drop(const void *handle);

// sim_misuse notes something a driver need not survive, or that its documentation calls undefined.
void sim_misuse(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- Memory --------------------------------------------------------------------------

// Where a range comes from. Device kinds are known by sim_range_on_device.
typedef enum {
    SIM_RANGE_DEVICE,      // cuMemAlloc
    SIM_RANGE_POOL,        // cuMemAllocAsync
    SIM_RANGE_HOST,        // cuMemHostAlloc
    SIM_RANGE_REGISTERED,  // cuMemHostRegister
    SIM_RANGE_TWIN,        // the device's address of registered memory; each is the other's owner
    SIM_RANGE_MANAGED,     // cuMemAllocManaged
    SIM_RANGE_VMM,         // cuMemMap
    SIM_RANGE_EXTERNAL,    // cuExternalMemoryGetMappedBuffer
    SIM_RANGE_IPC,         // cuIpcOpenMemHandle
    SIM_RANGE_GRAPHICS,    // cuGraphicsResourceGetMappedPointer
} sim_range_kind;

// sim_range is one allocation or mapping: addresses [address, address+size) as handed
// out, and the bytes behind them at work. Ranges never overlap.
struct sim_range {
    uintptr_t address;
    size_t size;    // as asked for: a byte more is out of range
    uint8_t *work;  // equals address for memory of the host, but for a twin
    sim_range_kind kind;
    sim_device *device;
    sim_context *ctx;  // owner; NULL for VMM and pool memory, which have none
    uint64_t id;       // CU_POINTER_ATTRIBUTE_BUFFER_ID
    unsigned flags;    // of the call that made it
    unsigned asked;    // flags of HIP's call, which reports them
    uint32_t access;   // bit d: device d may use it (VMM, pools); device kinds with an
                       // owner go by cuCtxEnablePeerAccess instead
    bool active;       // false: not allocated yet or freed already in stream order
    bool on_host;      // of SIM_RANGE_VMM: memory of a NUMA node
    unsigned holds;    // exports and other reasons not to give the place to another
    void *owner;       // for the file that made it
    // for the file that made it: what was mapped (whole pages)
    void *mapped;        // working mapping to unmap, or NULL
    uintptr_t reserved;  // address space to release, or 0
    size_t mapped_size;
};

// sim_range_add puts a filled-in range into the table, which copies it; NULL when memory is out.
// The pointer stays valid until sim_range_remove.
sim_range *sim_range_add(const sim_range *range);
void sim_range_remove(sim_range *range);
// sim_range_find returns the range that holds the address, or NULL.
sim_range *sim_range_find(uintptr_t address);
// sim_range_next walks all ranges in order of address, from NULL.
sim_range *sim_range_next(const sim_range *after);
bool sim_range_on_device(const sim_range *range);
// sim_range_room returns how many bytes of a range lie at an address and behind it. Memory of
// cuMemMap goes on in the mappings of the same reservation that follow without a gap and have the
// same access.
size_t sim_range_room(const sim_range *range, uintptr_t address);

// sim_translate_from returns where the bytes of a handed-out range are, or NULL unless they lie
// in one live range that code running in ctx may read or write: memory of its device, of a peer
// while access is enabled, what cuMemSetAccess opens to the device, the pool of the device, and
// memory of the host that the context knows.
void *sim_translate_from(const sim_context *ctx, uintptr_t address, size_t bytes, bool write);
// sim_translate_copy does so for copies, which take the host's address of registered memory too.
// Host pointers that belong to no range are not translated: copies use them as they are.
void *sim_translate_copy(const sim_context *ctx, uintptr_t address, size_t bytes, bool write);
// sim_translate_at_home does so for the device that has the memory, as copies between contexts
// reach it.
void *sim_translate_at_home(uintptr_t address, size_t bytes, bool write);

// sim_device_take takes bytes of the device's memory and returns their offset in memory_fd
// (address = base + offset, bytes at work + offset), filled with SIM_FRESH;
// CUDA_ERROR_OUT_OF_MEMORY when the device has not that much left. sim_device_give gives them
// back, after which they read as zeros; the place is not used again for as long as there is other
// space, unless DLX_GPUSIM_REUSE is set.
CUresult sim_device_take(sim_device *device, size_t bytes, size_t *offset);
void sim_device_give(sim_device *device, size_t offset, size_t bytes);

// sim_reserve returns PROT_NONE address space (a multiple of SIM_PAGE long, aligned to
// alignment, 0 for a page), 0 when there is none; sim_unreserve gives it back.
uintptr_t sim_reserve(size_t bytes, size_t alignment);
void sim_unreserve(uintptr_t address, size_t bytes);

// sim_map_external makes a range over [offset, offset+size) of a file: mapped for the
// simulator, PROT_NONE where it is handed out. offset needs no alignment: the address
// has the same distance from a page. fd stays the caller's and may be closed at once.
// Counts nothing. sim_unmap_external removes the range and both mappings; pending work
// must have been waited for.
CUresult sim_map_external(int fd, uint64_t offset, size_t size, sim_range_kind kind,
                          sim_context *ctx, void *owner, sim_range **out);
void sim_unmap_external(sim_range *range);

// sim_ipc_revoke makes the interprocess handles of a SIM_RANGE_DEVICE range invalid; for
// cuMemFree of one with holds.
void sim_ipc_revoke(const sim_range *range);
// sim_ipc_close unmaps a SIM_RANGE_IPC range, however often it was opened.
void sim_ipc_close(sim_range *range);

// ---- Work ----------------------------------------------------------------------------

// sim_op is one piece of work, which is run once.
struct sim_op {
    unsigned refs;
    sim_stream *stream;  // where it was enqueued
    sim_op *next;        // in the stream's queue
    sim_op **deps;       // what must be done before, apart from the op before it
    size_t dep_count;
    bool done;
    uint64_t number;    // grows with every op that is enqueued
    uint64_t due;       // when the background thread may run it
    uint64_t finished;  // when it was done, ns
    sim_context *ctx;   // whose sticky error a failing run is; set by sim_enqueue
    const char *call;   // for misuse notes
    // ready, where set, is asked again and again until it is true ("poll until true":
    // a wait for an external semaphore, a value in memory, another process's event).
    bool (*ready)(sim_op *op);
    // run does the work; anything but CUDA_SUCCESS becomes the context's sticky error.
    CUresult (*run)(sim_op *op);
    // release frees what the payload holds, when the last reference goes. May be NULL.
    void (*release)(sim_op *op);
    bool unlocked;         // run is called without the lock (host functions)
    bool always;           // run even in a context with a sticky error (callbacks)
    _Alignas(16) unsigned char payload[];
};

// sim_op_new makes an op with one reference and `payload` zeroed bytes; NULL when memory is out.
sim_op *sim_op_new(const char *call, size_t payload, CUresult (*run)(sim_op *));
void sim_op_retain(sim_op *op);
void sim_op_drop(sim_op *op);
// sim_op_after makes op wait for another one that may lie in another stream.
CUresult sim_op_after(sim_op *op, sim_op *before);

// sim_enqueue puts op at the end of the stream (or drops it while the stream is captured,
// since no graph is launched) and consumes the caller's reference, also on failure. Work of the legacy
// stream is ordered with the blocking streams here.
CUresult sim_enqueue(sim_stream *stream, sim_op *op);

struct sim_stream {
    CUstream handle;
    sim_context *ctx;
    sim_stream *next;  // of the context
    unsigned flags;    // CU_STREAM_NON_BLOCKING
    uint64_t id;
    pthread_t thread;  // of a per-thread default stream
    bool per_thread;
    bool destroyed;        // goes when its work is done
    bool running;          // its first op runs without the lock
    sim_op *head, *tail;   // what is still to do
    sim_op *last;          // the newest op, also when done; retained
    unsigned queries;      // since something ran: a spinning caller gets progress
    uint64_t searched;     // the last search for work that came by
    sim_capture *capture;  // NULL unless captured
};

// sim_stream_get finds the stream of a handle for the current context: NULL and 0x1 are
// its legacy stream, 0x2 the thread's own. A stream of another context is returned as
// well: entry points that refuse it compare stream->ctx. NULL and *error otherwise.
sim_stream *sim_stream_get(const sim_scope *scope, CUstream handle, CUresult *error);

// Waits. Each runs what is needed (and, by the seed, sometimes more) and returns the
// context's sticky error.
CUresult sim_wait(sim_op *op);                 // the caller holds a reference
CUresult sim_wait_stream(sim_stream *stream);  // all that is in it now
CUresult sim_wait_context(sim_context *ctx);   // all that is in its streams now

// ---- Events --------------------------------------------------------------------------

// State of an interprocess event, in a memfd of one page.
typedef struct {
    _Atomic uint64_t recorded;  // records called so far, by any process
    _Atomic uint64_t done;      // the newest record that was reached
    _Atomic uint64_t gone;      // not 0: who made the event has destroyed it
} sim_shared_event;

struct sim_event {
    CUevent handle;
    sim_context *ctx;
    sim_event *next;  // of the context
    unsigned flags;
    sim_op *record;            // the newest record; NULL before the first; retained
    uint64_t capture_id;       // of the capture that recorded it last, 0 for none
    sim_shared_event *shared;  // of CU_EVENT_INTERPROCESS
    int shared_fd;             // -1 otherwise
    bool imported;             // by cuIpcOpenEventHandle
};

// sim_event_open makes an event of ctx over another process's shared state (one page of
// fd, which stays the caller's); counts it as an event.
CUresult sim_event_open(sim_context *ctx, int fd, CUevent *out);
sim_event *sim_event_get(const sim_scope *scope, CUevent handle);  // NULL after noting misuse

// ---- Capture -------------------------------------------------------------------------

// sim_capture_refuses reports that the stream is captured and cannot take this work
// (it is not legal in a graph); the capture is invalid then.
bool sim_capture_refuses(sim_stream *stream);

#endif
