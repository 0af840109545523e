//go:build ucx && linux && cgo

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

struct dlx_ucx_table dlx_ucx;

// Whether memory is mapped by ucp_mem_map before UCX gets it for a message that is fetched. UCX 1.16 to 1.21 crash when the
// end of an endpoint ends operations on other memory: ucp_request_memh_invalidate looks for it in a cache of registrations,
// which there is not without memory hooks.
static int maps;

// One number of active messages is enough: the header says what a message is.
enum { message_id = 1 };

// What UCX would change in the whole process is switched off, unless the user has set the variable. Go needs its own
// handlers of signals. The hooks of memory do not see that Go gives pages back, so a cache of registrations that relies on
// them would be wrong.
static const char *const variables[][2] = {
	{"UCX_HANDLE_ERRORS", "none"}, {"UCX_ERROR_SIGNALS", ""}, {"UCX_MEM_EVENTS", "n"},
	{"UCX_MEM_MMAP_HOOK_MODE", "none"}, {"UCX_MEM_MALLOC_HOOKS", "n"}, {"UCX_MEM_MALLOC_RELOC", "n"},
	{"UCX_MEM_CUDA_HOOK_MODE", "none"}, {"UCX_VFS_ENABLE", "n"}, {"UCX_LOG_LEVEL", "fatal"},
	{"UCX_WARN_UNUSED_ENV_VARS", "n"},
	// Workers read these when they are made. Shared memory can end operations, but says so only if it is asked. By default, TCP
	// allocates eight buffers where one is enough for a connection: 55 KiB more for each.
	{"UCX_SYSV_ERROR_HANDLING", "y"}, {"UCX_POSIX_ERROR_HANDLING", "y"},
	{"UCX_TCP_TX_BUFS_GROW", "1"}, {"UCX_TCP_RX_BUFS_GROW", "1"},
	// If ucp_ep_create waited for connect, UCX could end the process where the peer dies meanwhile (DESIGN.md of package remote).
	{"UCX_TCP_CONN_NB", "y"},
};

enum { variable_count = sizeof variables / sizeof *variables, lasting = 5 };

// The library reads the environment when it is loaded. Afterwards the variables but the lasting ones, which are the last,
// go away, for the sake of child processes.
static void environment(int set) {
	static char ours[variable_count];
	for (int i = 0; i < variable_count; i++) {
		if (set) {
			ours[i] = !getenv(variables[i][0]);
			if (ours[i]) setenv(variables[i][0], variables[i][1], 0);
		} else if (ours[i] && i < variable_count - lasting) {
			unsetenv(variables[i][0]);
		}
	}
}

struct entry {
	const char *name, *since;
};

static const struct entry entries[] = {
#define DLX_UCX_ENTRY(name, since) {#name, since},
	DLX_UCX_FUNCTIONS(DLX_UCX_ENTRY)
};

// load opens the library, for the life of the process, and fills the table. It returns NULL, or the text of the loader,
// which the caller frees. The function that the library lacks, if any, is in *missing.
char *dlx_ucx_load(const char *name, const char **missing, const char **since) {
	*missing = NULL;
	environment(1);
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	environment(0);
	if (!handle) {
		const char *why = dlerror();
		return strdup(why ? why : "no reason given");
	}
	void **slots = (void **)&dlx_ucx;
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		slots[i] = dlsym(handle, entries[i].name);
		if (slots[i]) continue;
		*missing = entries[i].name;
		*since = entries[i].since;
		return strdup("");
	}
	return NULL;
}

ucs_status_t dlx_ucx_init(ucp_context_h *context, uint64_t *memory_types) {
	unsigned major, minor, patch;
	dlx_ucx.ucp_get_version(&major, &minor, &patch);
	maps = major == 1 && minor >= 16 && minor <= 21;
	ucp_config_t *config;
	ucs_status_t status = dlx_ucx.ucp_config_read(NULL, NULL, &config);
	if (status != UCS_OK) return status;
	// The receiver reads: a sender that writes could do so after the receiver has given up and reused the memory.
	if (!getenv("UCX_RNDV_SCHEME")) dlx_ucx.ucp_config_modify(config, "RNDV_SCHEME", "get_zcopy");
	ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
		.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
		.mt_workers_shared = 1, // several threads use the context at the same time
		.name = "dlx",
	};
	status = dlx_ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, context);
	dlx_ucx.ucp_config_release(config);
	if (status != UCS_OK) return status;
	ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
	status = dlx_ucx.ucp_context_query(*context, &attr);
	if (status == UCS_OK) *memory_types = attr.memory_types;
	else dlx_ucx.ucp_cleanup(*context);
	return status;
}

static void note(dlx_ucx_worker *w, dlx_ucx_event *e) {
	e->next = NULL;
	*w->last = e;
	w->last = &e->next;
}

// is_foreign compares the token in a time that does not tell how much of it is right.
static int is_foreign(const dlx_ucx_worker *w, const uint8_t *header, size_t length) {
	if (!w->has_token) return 0;
	if (length < DLX_UCX_TOKEN) return 1;
	uint8_t differs = 0;
	for (int i = 0; i < DLX_UCX_TOKEN; i++) differs |= header[i] ^ w->token[i];
	return differs != 0;
}

static ucs_status_t arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param) {
	dlx_ucx_worker *w = arg;
	if (is_foreign(w, header, header_length)) { // somebody else who reaches the port must not use up what the peer may send
		if (!w->foreign.id) note(w, &w->foreign);
		w->foreign.id++;
		return UCS_OK;
	}
	int fetched = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
	size_t here = fetched ? 0 : length;
	dlx_ucx_message *m = NULL;
	if (w->messages < w->max_messages && header_length <= w->max_header && here <= w->max_eager)
		m = malloc(sizeof *m + header_length + here);
	if (!m) { // the peer sends more than was agreed on, or no memory is left
		if (!w->dropped.kind) {
			w->dropped.kind = DLX_UCX_DROPPED;
			note(w, &w->dropped);
		}
		return UCS_OK;
	}
	w->messages++;
	m->event = (dlx_ucx_event){.kind = DLX_UCX_ARRIVED, .object = m};
	m->data = fetched ? data : NULL;
	m->length = length;
	m->header_length = header_length;
	if (header_length) memcpy(m->bytes, header, header_length);
	if (here) memcpy(m->bytes + header_length, data, here);
	note(w, &m->event);
	return fetched ? UCS_INPROGRESS : UCS_OK;
}

static void broken(void *arg, ucp_ep_h ep, ucs_status_t status) {
	dlx_ucx_worker *w = arg;
	(void)ep;
	if (w->broken.kind) return;
	w->broken.kind = DLX_UCX_BROKEN;
	w->broken.status = status;
	note(w, &w->broken);
}

ucs_status_t dlx_ucx_open(ucp_context_h context, dlx_ucx_worker *w, uint64_t *max_header) {
	w->context = context;
	w->last = &w->first;
	w->foreign.kind = DLX_UCX_FOREIGN;
	ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED, // Go holds a lock
	};
	ucs_status_t status = dlx_ucx.ucp_worker_create(context, &params, &w->worker);
	if (status != UCS_OK) return status;
	ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
	status = dlx_ucx.ucp_worker_query(w->worker, &attr);
	if (status == UCS_OK) {
		*max_header = attr.max_am_header;
		status = dlx_ucx.ucp_worker_get_efd(w->worker, &w->fd);
	}
	if (status == UCS_OK) {
		ucp_am_handler_param_t handler = {
			.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
			              UCP_AM_HANDLER_PARAM_FIELD_ARG,
			.id = message_id, .flags = UCP_AM_FLAG_WHOLE_MSG, .cb = arrived, .arg = w,
		};
		status = dlx_ucx.ucp_worker_set_am_recv_handler(w->worker, &handler);
	}
	if (status != UCS_OK) {
		dlx_ucx.ucp_worker_destroy(w->worker);
		w->worker = NULL;
	}
	return status;
}

ucs_status_t dlx_ucx_connect(dlx_ucx_worker *w, const void *address) {
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = address,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER, // otherwise operations could not be ended
		.err_handler = {.cb = broken, .arg = w},
	};
	return dlx_ucx.ucp_ep_create(w->worker, &params, &w->ep);
}

static void ended(dlx_ucx_op *op, void *request, ucs_status_t status) {
	op->event.status = status;
	note(op->worker, &op->event);
	dlx_ucx.ucp_request_free(request);
}

static void sent(void *request, ucs_status_t status, void *op) { ended(op, request, status); }

static void received(void *request, ucs_status_t status, size_t length, void *op) {
	(void)length; // it is that of the message
	ended(op, request, status);
}

static dlx_ucx_op *new_op(dlx_ucx_worker *w, uint64_t id, const void *header, uint32_t header_length) {
	dlx_ucx_op *op = malloc(sizeof *op + header_length);
	if (!op) return NULL;
	op->event = (dlx_ucx_event){.kind = DLX_UCX_DONE, .id = id, .object = op};
	op->worker = w;
	op->memory = NULL;
	op->before = NULL;
	op->after = w->ops;
	if (w->ops) w->ops->before = op;
	w->ops = op;
	if (header_length) memcpy(op->header, header, header_length);
	return op;
}

// free_op is not called by callbacks, since UCX may still use the mapping after them.
static void free_op(dlx_ucx_op *op) {
	if (op->memory) dlx_ucx.ucp_mem_unmap(op->worker->context, op->memory);
	if (op->after) op->after->before = op->before;
	if (op->before) op->before->after = op->after;
	else op->worker->ops = op->after;
	free(op);
}

// finish returns UCS_INPROGRESS if an event with op will come. Otherwise op is freed, and the status is that of the work.
static ucs_status_t finish(ucs_status_ptr_t p, dlx_ucx_op *op) {
	if (UCS_PTR_IS_PTR(p)) return UCS_INPROGRESS;
	free_op(op);
	return UCS_PTR_STATUS(p);
}

ucs_status_t dlx_ucx_flush(dlx_ucx_worker *w, uint64_t id) {
	if (!w->ep) return UCS_ERR_NOT_CONNECTED;
	dlx_ucx_op *op = new_op(w, id, NULL, 0);
	if (!op) return UCS_ERR_NO_MEMORY;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb = {.send = sent},
		.user_data = op,
	};
	return finish(dlx_ucx.ucp_ep_flush_nbx(w->ep, &param), op);
}

// map maps the memory of an operation, and notes it in the parameters of the call. The operation owns the mapping.
static ucs_status_t map(dlx_ucx_op *op, uintptr_t data, uint64_t length, ucp_request_param_t *param) {
	ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
		.address = (void *)data,
		.length = length,
		.memory_type = param->memory_type,
	};
	ucs_status_t status = dlx_ucx.ucp_mem_map(op->worker->context, &params, &op->memory);
	if (status != UCS_OK) {
		op->memory = NULL;
		return status;
	}
	param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
	param->memh = op->memory;
	return UCS_OK;
}

ucs_status_t dlx_ucx_send(dlx_ucx_worker *w, uint64_t id, const void *header, uint32_t header_length, uintptr_t data,
                          uint64_t length, ucs_memory_type_t memory, int fetched) {
	if (!w->ep) return UCS_ERR_NOT_CONNECTED;
	dlx_ucx_op *op = new_op(w, id, header, header_length);
	if (!op) return UCS_ERR_NO_MEMORY;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
		                UCP_OP_ATTR_FIELD_MEMORY_TYPE,
		.flags = fetched ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER,
		.cb = {.send = sent},
		.user_data = op,
		.memory_type = memory,
	};
	ucs_status_t status = maps && fetched ? map(op, data, length, &param) : UCS_OK;
	if (status != UCS_OK) {
		free_op(op);
		return status;
	}
	return finish(dlx_ucx.ucp_am_send_nbx(w->ep, message_id, op->header, header_length, (const void *)data, length, &param), op);
}

ucs_status_t dlx_ucx_receive(dlx_ucx_worker *w, uint64_t id, dlx_ucx_message *m, uintptr_t data, uint64_t length,
                             ucs_memory_type_t memory) {
	dlx_ucx_op *op = new_op(w, id, NULL, 0);
	if (!op) return UCS_ERR_NO_MEMORY;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
		.cb = {.recv_am = received},
		.user_data = op,
		.memory_type = memory,
	};
	ucs_status_t status = maps ? map(op, data, length, &param) : UCS_OK;
	if (status != UCS_OK) {
		free_op(op);
		return status;
	}
	void *desc = m->data;
	m->data = NULL; // UCX owns it now
	return finish(dlx_ucx.ucp_am_recv_data_nbx(w->worker, desc, (void *)data, length, &param), op);
}

void dlx_ucx_drop(dlx_ucx_worker *w, dlx_ucx_message *m) {
	if (m->data && w->worker) dlx_ucx.ucp_am_data_release(w->worker, m->data);
	if (w) w->messages--; // no worker is left after its end, only data that came with messages
	free(m);
}

// take copies the data that came with a message, and frees the message.
void dlx_ucx_take(dlx_ucx_worker *w, dlx_ucx_message *m, uintptr_t data) {
	if (m->length) memcpy((void *)data, m->bytes + m->header_length, m->length);
	dlx_ucx_drop(w, m);
}

int dlx_ucx_poll(dlx_ucx_worker *w, int rounds, dlx_ucx_event *out, int max) {
	for (int i = rounds; i < 0 && !w->first; i++) dlx_ucx.ucp_worker_progress(w->worker);
	// All that UCX can do at once is done: callbacks may come in several steps.
	for (int i = 0; i < rounds; i++) {
		if (!dlx_ucx.ucp_worker_progress(w->worker) && w->first) break;
		if (w->first && i >= 16) break;
	}
	int n = 0;
	for (; n < max && w->first; n++) {
		out[n] = *w->first;
		w->first = w->first->next;
		if (!w->first) w->last = &w->first;
		if (out[n].kind == DLX_UCX_DONE) free_op(out[n].object);
		if (out[n].kind == DLX_UCX_FOREIGN) w->foreign.id = 0;
	}
	return n;
}

// disconnect gives up the endpoint, which ends all operations. It reports whether that is done.
int dlx_ucx_disconnect(dlx_ucx_worker *w, int rounds) {
	if (!w->ep) return 1;
	ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
	void *request = dlx_ucx.ucp_ep_close_nbx(w->ep, &param);
	w->ep = NULL;
	if (!UCS_PTR_IS_PTR(request)) return 1;
	int done = 0;
	for (int i = 0; i < rounds && !done; i++) {
		dlx_ucx.ucp_worker_progress(w->worker);
		done = dlx_ucx.ucp_request_check_status(request) != UCS_INPROGRESS;
	}
	dlx_ucx.ucp_request_free(request);
	return done;
}

void dlx_ucx_trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

void dlx_ucx_close(dlx_ucx_worker *w) {
	dlx_ucx.ucp_worker_destroy(w->worker);
	w->worker = NULL;
	// Nobody takes the messages that this has brought.
	for (dlx_ucx_event *e = w->first, *next; e; e = next) {
		next = e->next;
		if (e->kind == DLX_UCX_ARRIVED) free(e->object);
	}
	// UCX does not call back for all operations that the end of a worker ends.
	while (w->ops) free_op(w->ops);
	w->first = NULL;
	w->last = &w->first;
}

// TCP is armed at any time, also while bytes wait in a socket. The descriptor is readable then, which EPOLL_CTL_MOD sees.
ucs_status_t dlx_ucx_arm(dlx_ucx_worker *w, int epoll) {
	ucs_status_t status = dlx_ucx.ucp_worker_arm(w->worker);
	struct epoll_event once = {.events = EPOLLIN | EPOLLONESHOT};
	if (status == UCS_OK && epoll_ctl(epoll, EPOLL_CTL_MOD, w->fd, &once) != 0) return UCS_ERR_IO_ERROR;
	return status;
}

void dlx_ucx_signal(dlx_ucx_worker *w) { dlx_ucx.ucp_worker_signal(w->worker); }

const char *dlx_ucx_version(void) { return dlx_ucx.ucp_get_version_string(); }

ucs_status_t dlx_ucx_address(dlx_ucx_worker *w, ucp_address_t **address, size_t *length) {
	return dlx_ucx.ucp_worker_get_address(w->worker, address, length);
}

void dlx_ucx_release_address(dlx_ucx_worker *w, ucp_address_t *address) {
	dlx_ucx.ucp_worker_release_address(w->worker, address);
}

char *dlx_ucx_describe(dlx_ucx_worker *w) {
	char *text = NULL;
	size_t length;
	FILE *f = open_memstream(&text, &length);
	if (!f) return NULL;
	if (w->ep) dlx_ucx.ucp_ep_print_info(w->ep, f);
	fclose(f);
	return text;
}
