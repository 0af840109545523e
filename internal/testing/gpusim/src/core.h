// core.h is what the files of the driver's core have in common, beside sim.h.
#ifndef DLX_GPUSIM_CORE_H
#define DLX_GPUSIM_CORE_H

#include "sim.h"

// What devices say of their limits (CU_DEVICE_ATTRIBUTE_MAX_*).
enum {
    SIM_MAX_PITCH = 0x7fffffff,
    SIM_MAX_GRID_X = 0x7fffffff,
    SIM_MAX_GRID_YZ = 0xffff,
    SIM_MAX_BLOCK_XY = 1024,
    SIM_MAX_BLOCK_Z = 64,
};

extern _Thread_local bool sim_in_callback;  // this thread runs a host function

// sim_capture_forbids reports that a capture under way forbids the calling thread what is
// unsafe, and makes that capture invalid (cuThreadExchangeStreamCaptureMode).
bool sim_capture_forbids(void);
// sim_capture_take is what becomes of work that is enqueued on a captured stream.
CUresult sim_capture_take(const sim_stream *stream);
// sim_capture_id tells captures apart; 0 for a stream that is not captured.
uint64_t sim_capture_id(const sim_stream *stream);
// sim_capture_abandon ends a capture without a graph, because its stream goes.
void sim_capture_abandon(sim_stream *stream);

// sim_stream_find is sim_stream_get for calls that only look: the legacy stream is found
// during a capture too.
sim_stream *sim_stream_find(const sim_scope *scope, CUstream handle, CUresult *error);
// sim_legacy_captures reports that this is the legacy stream, and one that it would wait for
// is captured.
bool sim_legacy_captures(const sim_stream *stream);

// sim_nap lets go of the lock until something changes, or the time is over.
void sim_nap(long ns);
// sim_progress runs, for a caller who asks again and again, something that op waits for.
bool sim_progress(sim_stream *stream, sim_op *op);

// sim_start_worker starts the thread that runs work nobody waits for.
void sim_start_worker(void);
// sim_stream_new makes a stream of ctx, without a handle.
sim_stream *sim_stream_new(sim_context *ctx, unsigned flags);
// sim_stream_free drops a stream that has no work.
void sim_stream_free(sim_stream *stream);
// sim_event_free drops an event.
void sim_event_free(sim_event *event);
// sim_device_reaches reports that a device can access another one's memory.
bool sim_device_reaches(const sim_device *device, const sim_device *other);
// sim_pages is a number of bytes in whole pages.
size_t sim_pages(size_t bytes);
// sim_managed_take is for new work, sim_managed_settle for calls that tell that work is done:
// between them the host may be kept from managed memory.
void sim_managed_take(void);
void sim_managed_settle(void);
// sim_managed_end frees managed memory and takes its range out of the table.
void sim_managed_end(sim_range *range);
// sim_host_known reports that memory of the host is pinned in the eyes of a context: what was
// registered without CU_MEMHOSTREGISTER_PORTABLE is so in one context only.
bool sim_host_known(const sim_range *range, const sim_context *ctx);
// sim_range_reached reports that code running in a context may read or write a range.
bool sim_range_reached(const sim_range *range, const sim_context *ctx, bool write);
// sim_host_for_device is the address by which devices reach memory of the host in a context, false
// if there is none.
bool sim_host_for_device(const sim_range *range, const sim_context *ctx, uintptr_t address,
                         uint64_t *out);
// sim_range_within is the first range that has bytes in [address, address+size), or NULL.
sim_range *sim_range_within(uintptr_t address, size_t size);
// sim_reservation_find is where the reserved addresses begin that an address lies in, and how many
// they are; false if it lies in none.
bool sim_reservation_find(uintptr_t address, uintptr_t *start, size_t *size);
// sim_range_end frees what lies behind a range, whatever it is, and takes it out of the table.
void sim_range_end(sim_range *range);
// sim_pool_end gives memory of a pool back and takes its range out of the table.
void sim_pool_end(sim_range *range);
// sim_pools_settle has pools give back what is not in use; for calls that synchronise, at their end.
void sim_pools_settle(void);
CUmemoryPool sim_pool_handle(const sim_pool *pool);
// sim_forget_ranges frees the memory that a context still has: it ends with its context.
void sim_forget_ranges(sim_context *ctx);
// sim_forget_modules unloads the modules that a context still has.
void sim_forget_modules(sim_context *ctx);
// sim_forget_context waits for all work of a context and drops what it still has.
void sim_forget_context(sim_context *ctx);

#endif
