/* The nodes of exported tensors, and their way back.
 *
 * A node is a managed tensor with room for its shape and strides. Nodes belong to
 * a shard of the Go side for ever and are never freed. Go fills a node and gives
 * it away; from then on it is the consumer's, until the consumer calls the
 * deleter, from any thread, at any time. The deleter is all C: it pushes the
 * node on its shard's list of returned nodes, takes no lock, allocates nothing,
 * calls nothing but write(2), and leaves errno as it was. Go takes the list as a
 * whole. */
#ifndef DLX_NODE_H
#define DLX_NODE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* Two shared libraries with dlx in them may be in one process: each keeps to its own. */
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

/* The nodes of a shard that their consumers gave back, the last one first. A
 * pair of cache lines of its own keeps consumers off what exporters write. */
struct dlx_returned {
	_Alignas(128) _Atomic(struct dlx_node *) head;
};

enum { dlx_shards = 16 };

extern struct dlx_returned dlx_returned[dlx_shards];

/* 1 while the goroutine that empties the lists sleeps. Whoever has put something
 * on a list calls dlx_wake, which then writes one byte to the pipe and sets 0. */
extern _Atomic uint32_t dlx_armed;
void dlx_wake(void);

/* dlx_set_pipe names the pipe, before dlx_armed is set for the first time. */
void dlx_set_pipe(int fd);

/* dlx_node_size is the distance of two nodes with room for rank axes. */
size_t dlx_node_size(size_t rank);

/* dlx_new_nodes makes n nodes with room for rank axes, with the indices from first
 * on. They live as long as the process. NULL if there is no memory. */
void *dlx_new_nodes(struct dlx_returned *home, uint32_t first, size_t n, size_t rank);

/* The deleters of nodes. A second call for the same node, as long as Go has not
 * given it away again, does nothing. */
void dlx_delete_versioned(DLManagedTensorVersioned *self);
void dlx_delete_legacy(DLManagedTensor *self);

/* dlx_call_versioned and dlx_call_legacy call the deleter that was read from a
 * managed tensor. */
void dlx_call_versioned(uintptr_t deleter, uintptr_t managed);
void dlx_call_legacy(uintptr_t deleter, uintptr_t managed);

#pragma GCC visibility pop

#endif
