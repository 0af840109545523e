// core.h is what the files of the driver's core have in common, beside sim.h.
#ifndef DLX_GPUSIM_CORE_H
#define DLX_GPUSIM_CORE_H

#include "sim.h"

extern _Thread_local bool sim_in_callback;  // this thread runs a host function

// sim_capture_forbids reports that a capture under way forbids the calling thread what is
// unsafe, and makes that capture invalid (cuThreadExchangeStreamCaptureMode).
bool sim_capture_forbids(void);
// sim_capture_take puts op into the graph that the stream is captured into.
CUresult sim_capture_take(sim_stream *stream, sim_op *op);

// sim_progress runs, for a caller who asks again and again, something that op waits for.
bool sim_progress(sim_stream *stream, sim_op *op);

// sim_start_worker starts the thread that runs work nobody waits for.
void sim_start_worker(void);
// sim_stream_new makes a stream of ctx, without a handle.
sim_stream *sim_stream_new(sim_context *ctx, unsigned flags, int priority);
// sim_stream_free drops a stream that has no work.
void sim_stream_free(sim_stream *stream);
// sim_event_free drops an event.
void sim_event_free(sim_event *event);
// sim_forget_ranges frees the memory that a context still has: it ends with its context.
void sim_forget_ranges(sim_context *ctx);
// sim_forget_context waits for all work of a context and drops what it still has.
void sim_forget_context(sim_context *ctx);

#endif
