/* The nodes of exported tensors, and how they return to Go.
 *
 * A node is a managed tensor with memory for its shape and strides. Each node belongs to
 * one shard of the Go code forever and is never freed. Go fills a node and gives it to a
 * consumer, who owns it until it calls the deleter, from any thread, at any time. The
 * deleter is C code only. It pushes the node on its shard's list of returned nodes. It takes
 * no lock, allocates nothing, calls only write(2), and preserves errno. Go takes the whole
 * list at once. */
#ifndef DLX_NODE_H
#define DLX_NODE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* A process may load two shared libraries that contain dlx. Each uses its own symbols. */
#pragma GCC visibility push(hidden)

struct dlx_node {
	union {
		DLManagedTensorVersioned versioned;
		DLManagedTensor legacy;
	} managed;
	struct dlx_node *next;     /* in the list of returned nodes */
	struct dlx_returned *home; /* set once */
	uint32_t index;            /* of the Go side's slot, set once */
	_Atomic uint32_t out;      /* 1 while the consumer owns the node */
	_Alignas(64) int64_t dims[]; /* the shape, then the strides */
};

/* The list of a shard's nodes that consumers have deleted, the last one first. The alignment
 * puts it on cache lines that exporters do not write to. */
struct dlx_returned {
	_Alignas(128) _Atomic(struct dlx_node *) head;
};

enum { dlx_shards = 16 };

extern struct dlx_returned dlx_returned[dlx_shards];

/* 1 while the goroutine that empties the lists sleeps. After putting a node on a list, call
 * dlx_wake. If dlx_armed is 1, dlx_wake sets it to 0 and writes one byte to the pipe. */
extern _Atomic uint32_t dlx_armed;
void dlx_wake(void);

/* dlx_set_pipe sets the pipe. Call it before dlx_armed is set for the first time. */
void dlx_set_pipe(int fd);

/* dlx_node_size returns the size in bytes of a node with room for rank axes. */
size_t dlx_node_size(size_t rank);

/* dlx_new_nodes makes n adjacent nodes with room for rank axes. Their indices begin at first.
 * They are never freed. It returns NULL if there is no memory. */
void *dlx_new_nodes(struct dlx_returned *home, uint32_t first, size_t n, size_t rank);

/* The deleters of nodes. A second call for the same node, also at the same time from another
 * thread, does nothing, unless Go has reused the node in between. */
void dlx_delete_versioned(DLManagedTensorVersioned *self);
void dlx_delete_legacy(DLManagedTensor *self);

/* dlx_call_versioned and dlx_call_legacy call the deleter that was read from a
 * managed tensor. */
void dlx_call_versioned(uintptr_t deleter, uintptr_t managed);
void dlx_call_legacy(uintptr_t deleter, uintptr_t managed);

#pragma GCC visibility pop

#endif
