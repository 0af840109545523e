//go:build cgo && !windows

#include "node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dlx_returned dlx_returned[dlx_shards];
_Atomic uint32_t dlx_armed;
static _Atomic int pipe_fd = -1;

void dlx_set_pipe(int fd) { atomic_store(&pipe_fd, fd); }

void dlx_wake(void) {
	/* Reading first leaves the line shared while the drainer is awake. */
	if (!atomic_load(&dlx_armed) || !atomic_exchange(&dlx_armed, 0)) {
		return;
	}
	int saved = errno;
	while (write(atomic_load(&pipe_fd), "", 1) < 0 && errno == EINTR) {
	}
	errno = saved;
}

size_t dlx_node_size(size_t rank) {
	size_t line = _Alignof(struct dlx_node);
	size_t size = sizeof(struct dlx_node) + 2 * rank * sizeof(int64_t);
	return (size + line - 1) / line * line;
}

void *dlx_new_nodes(struct dlx_returned *home, uint32_t first, size_t n, size_t rank) {
	size_t size = dlx_node_size(rank);
	void *nodes = NULL;
	if (posix_memalign(&nodes, _Alignof(struct dlx_node), n * size) != 0) {
		return NULL;
	}
	memset(nodes, 0, n * size);
	for (size_t i = 0; i < n; i++) {
		struct dlx_node *node = (struct dlx_node *)((char *)nodes + i * size);
		node->home = home;
		node->index = first + (uint32_t)i;
	}
	return nodes;
}

static void give_back(struct dlx_node *node) {
	/* Of several threads that delete one struct, which is an error, only one may push the node. */
	if (!atomic_exchange_explicit(&node->out, 0, memory_order_relaxed)) {
		return;
	}
	struct dlx_returned *home = node->home;
	struct dlx_node *head = atomic_load_explicit(&home->head, memory_order_relaxed);
	do {
		node->next = head;
	} while (!atomic_compare_exchange_weak(&home->head, &head, node));
	/* From here on the node may be in use again and is not touched. The push
	 * comes before the look at dlx_armed, and the drainer sets dlx_armed before
	 * its last look at the lists: one of the two sees the other. */
	dlx_wake();
}

void dlx_delete_versioned(DLManagedTensorVersioned *self) { give_back((struct dlx_node *)self); }

void dlx_delete_legacy(DLManagedTensor *self) { give_back((struct dlx_node *)self); }

void dlx_call_versioned(uintptr_t deleter, uintptr_t managed) {
	((void (*)(DLManagedTensorVersioned *))deleter)((DLManagedTensorVersioned *)managed);
}

void dlx_call_legacy(uintptr_t deleter, uintptr_t managed) {
	((void (*)(DLManagedTensor *))deleter)((DLManagedTensor *)managed);
}
