// The functions of libucp that are used, and what C keeps between the calls of Go.
#ifndef DLX_UCX_SHIM_H
#define DLX_UCX_SHIM_H

#include <stdint.h>
#include <ucp/api/ucp.h>

// X(function, the version that brought it)
#define DLX_UCX_FUNCTIONS(X)                  \
	X(ucp_get_version, "1.0")                 \
	X(ucp_get_version_string, "1.0")          \
	X(ucp_config_read, "1.0")                 \
	X(ucp_config_modify, "1.0")               \
	X(ucp_config_release, "1.0")              \
	X(ucp_init_version, "1.0")                \
	X(ucp_cleanup, "1.0")                     \
	X(ucp_context_query, "1.0")               \
	X(ucp_mem_map, "1.0")                     \
	X(ucp_mem_unmap, "1.0")                   \
	X(ucp_worker_create, "1.0")               \
	X(ucp_worker_destroy, "1.0")              \
	X(ucp_worker_query, "1.5")                \
	X(ucp_worker_get_address, "1.0")          \
	X(ucp_worker_release_address, "1.0")      \
	X(ucp_worker_progress, "1.0")             \
	X(ucp_worker_get_efd, "1.0")              \
	X(ucp_worker_arm, "1.0")                  \
	X(ucp_worker_signal, "1.0")               \
	X(ucp_worker_set_am_recv_handler, "1.10") \
	X(ucp_ep_create, "1.0")                   \
	X(ucp_ep_close_nbx, "1.10")               \
	X(ucp_ep_flush_nbx, "1.9")                \
	X(ucp_ep_print_info, "1.0")               \
	X(ucp_am_send_nbx, "1.10")                \
	X(ucp_am_recv_data_nbx, "1.10")           \
	X(ucp_am_data_release, "1.5")             \
	X(ucp_request_check_status, "1.0")        \
	X(ucp_request_free, "1.0")

#define DLX_UCX_FIELD(name, since) __typeof__(&name) name;
struct dlx_ucx_table {
	DLX_UCX_FUNCTIONS(DLX_UCX_FIELD)
};
#undef DLX_UCX_FIELD

extern struct dlx_ucx_table dlx_ucx;

enum { DLX_UCX_DONE = 1, DLX_UCX_ARRIVED = 2, DLX_UCX_BROKEN = 3, DLX_UCX_DROPPED = 4, DLX_UCX_FOREIGN = 5 };
enum { DLX_UCX_TOKEN = 16 }; // bytes of a token

// An event is what a callback has noted. Go frees the object.
typedef struct dlx_ucx_event {
	int32_t kind;
	int32_t status;    // of DONE and BROKEN
	uint64_t id;       // of DONE; of FOREIGN: how many messages
	void *object;      // of DONE: the operation; of ARRIVED: the message
	struct dlx_ucx_event *next;
} dlx_ucx_event;

// An operation that UCX has not finished. Its event is part of it, so that a callback allocates nothing.
typedef struct dlx_ucx_op {
	dlx_ucx_event event;
	struct dlx_ucx_op *before, *after; // in the list of the worker
	struct dlx_ucx_worker *worker;
	ucp_mem_h memory;  // what map has made, or NULL
	char header[]; // UCX may read it until the end
} dlx_ucx_op;

// A message that has arrived.
typedef struct dlx_ucx_message {
	dlx_ucx_event event;
	void *data;        // of UCX, for ucp_am_recv_data_nbx; NULL if the bytes are here
	uint64_t length;
	uint64_t header_length; // no padding comes after it
	char bytes[];      // the header, then what came with it
} dlx_ucx_message;

typedef struct dlx_ucx_worker {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	int fd; // of UCX, readable when there is something to do
	dlx_ucx_event *first, **last;
	dlx_ucx_op *ops; // all that are not freed
	dlx_ucx_event broken, dropped; // noted at most once each
	dlx_ucx_event foreign; // in the list if its id is not 0
	uint8_t token[DLX_UCX_TOKEN]; // that the headers of the peer begin with
	int has_token;
	uint32_t messages, max_messages, max_eager, max_header;
} dlx_ucx_worker;

char *dlx_ucx_load(const char *name, const char **missing, const char **since);
// dlx_ucx_init also returns the bits of the memory types that the context knows.
ucs_status_t dlx_ucx_init(ucp_context_h *context, uint64_t *memory_types);
ucs_status_t dlx_ucx_open(ucp_context_h context, dlx_ucx_worker *w, uint64_t *max_header);
ucs_status_t dlx_ucx_connect(dlx_ucx_worker *w, const void *address);
// dlx_ucx_flush ends an operation when all that was sent before is done, and over TCP the peer is connected.
ucs_status_t dlx_ucx_flush(dlx_ucx_worker *w, uint64_t id);
ucs_status_t dlx_ucx_send(dlx_ucx_worker *w, uint64_t id, const void *header, uint32_t header_length, uintptr_t data,
                          uint64_t length, ucs_memory_type_t memory, int fetched);
ucs_status_t dlx_ucx_receive(dlx_ucx_worker *w, uint64_t id, dlx_ucx_message *m, uintptr_t data, uint64_t length,
                             ucs_memory_type_t memory);
void dlx_ucx_take(dlx_ucx_worker *w, dlx_ucx_message *m, uintptr_t data);
void dlx_ucx_drop(dlx_ucx_worker *w, dlx_ucx_message *m);
int dlx_ucx_poll(dlx_ucx_worker *w, int rounds, dlx_ucx_event *out, int max);
int dlx_ucx_disconnect(dlx_ucx_worker *w, int rounds);
// dlx_ucx_trim gives free memory of the C library back to the system.
void dlx_ucx_trim(void);
void dlx_ucx_close(dlx_ucx_worker *w);
ucs_status_t dlx_ucx_arm(dlx_ucx_worker *w, int epoll);
void dlx_ucx_signal(dlx_ucx_worker *w);
const char *dlx_ucx_version(void);
ucs_status_t dlx_ucx_address(dlx_ucx_worker *w, ucp_address_t **address, size_t *length);
void dlx_ucx_release_address(dlx_ucx_worker *w, ucp_address_t *address);
char *dlx_ucx_describe(dlx_ucx_worker *w);

#endif
