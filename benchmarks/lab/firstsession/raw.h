// The calls of CUDA's driver and of Vulkan that the experiments make themselves, on the first device of CUDA and the
// Vulkan device of the same card. A process runs one experiment, so that all state is the process's, and ends without
// releasing anything.
//
// A function that returns int returns a CUresult or a VkResult. fs_what is the call that failed last on this thread.
#ifndef DLX_FIRSTSESSION_RAW_H
#define DLX_FIRSTSESSION_RAW_H

#include <stddef.h>
#include <stdint.h>

extern _Thread_local const char *fs_what;
const char *fs_failed(void); // fs_what, for Go

int64_t fs_now(void); // nanoseconds of CLOCK_MONOTONIC

// ---- CUDA: cuda.c ----

// fs_cuda_load opens the library and returns NULL, or the reason why it cannot be opened.
const char *fs_cuda_load(const char *library);
int fs_cuda_open(void);    // retains the primary context of device 0, and makes it current
int fs_cuda_current(void); // makes it current on another thread
const char *fs_cuda_code(int code);
int fs_cuda_describe(char name[256], uint8_t uuid[16], int *version, uint64_t *total, uint64_t *unused);

int fs_cuda_alloc(uint64_t size, uint64_t *address);
int fs_cuda_free(uint64_t address);
int fs_cuda_host_alloc(uint64_t size, void **p);
int fs_cuda_managed(uint64_t size, uint64_t *address);
int fs_cuda_vmm(uint64_t size, int location, uint64_t *address); // a CUmemLocationType
int fs_cuda_pooled(uint64_t size, uint64_t *address);
int fs_cuda_import(int fd, uint64_t size, uint64_t *address); // takes the descriptor
int fs_cuda_register(void *p, uint64_t size, unsigned flags);
int fs_cuda_unregister(void *p);
int fs_cuda_write(uint64_t dst, const void *src, uint64_t size); // waits
// fs_cuda_copies copies n times on one stream, waits, and returns the time in ns.
int fs_cuda_copies(uint64_t dst, uint64_t src, uint64_t size, int n, int64_t *ns);

// fs_attribute is the answer for one attribute of a pointer.
typedef struct {
	const char *name;
	int code;
	uint64_t value;
} fs_attribute;
enum { FS_ATTRIBUTES = 16 };
int fs_cuda_attributes(uint64_t p, fs_attribute out[FS_ATTRIBUTES]); // returns their number

int fs_cuda_semaphore(int fd); // imports a timeline, and takes the descriptor
int fs_cuda_signal(uint64_t value);
int fs_cuda_await(uint64_t value);
int fs_cuda_event(void);       // records an event after that
int fs_cuda_event_done(void);  // cuEventQuery
int fs_cuda_synchronize(void); // cuStreamSynchronize

// ---- What blocks behind a wait: blocking.c ----

int fs_block_count(void);
const char *fs_block_name(int i);
int fs_block_needs(int i); // FS_NEEDS...
enum { FS_NEEDS_MEMORY = 1, FS_NEEDS_SEMAPHORE = 2 }; // a descriptor that Vulkan exports
int fs_block_open(void);                               // makes the streams, and uses them once
int fs_block_prepare(int i, int fd, uint64_t fd_size); // takes the descriptor
int fs_block_wait(int semaphore);                      // enqueues the wait: for the timeline's value 1, or for a word in memory
void fs_block_word(void);                              // satisfies the latter
int fs_block_waiting(void);                            // CUDA_ERROR_NOT_READY (600) while the stream waits
int fs_block_call(int i);                              // the call that may block
int fs_block_other_query(void);                        // calls that other threads make meanwhile
int fs_block_other_copy(void);

// ---- Memory of the host: hostmemory.c ----

// fs_memory_new makes memory of a kind, filled with a pattern, and returns NULL, or the reason why there is none.
const char *fs_memory_new(const char *kind, uint64_t size, const char *folder, void **p, int *writable);
void fs_memory_fill(void *p, uint64_t size);
uint64_t fs_memory_wrong(const void *p, uint64_t size); // bytes that are not of the pattern

// ---- Vulkan: vulkan.c, hostimport.c ----

// fs_vk_open opens the device with a UUID, or the first one if uuid is NULL. It returns NULL, or the reason why not.
const char *fs_vk_open(const char *library, const uint8_t *uuid);
const char *fs_vk_code(int code);
void fs_vk_describe(char name[256], uint8_t uuid[16], uint32_t *type, uint32_t *api, uint32_t *driver);
int fs_vk_has(const char *extension);
int fs_vk_timelines_export(void); // whether opaque descriptors of timeline semaphores can be exported
int fs_vk_export_memory(uint64_t size, int *fd, uint64_t *allocated);
int fs_vk_mapped(uint64_t size, int device_local, void **p); // memory that vkMapMemory maps
int fs_vk_semaphore(int exported, uint64_t *semaphore, int *fd);
int fs_vk_signal(uint64_t semaphore, uint64_t value);
int fs_vk_wait(uint64_t semaphore, uint64_t value, uint64_t timeout_ns);
int fs_vk_counter(uint64_t semaphore, uint64_t *value);
// fs_vk_forward submits to a family's queue: wait for a value on the device, then signal another one.
int fs_vk_forward(int family, uint64_t from, uint64_t value, uint64_t to, uint64_t to_value);

typedef struct {
	uint32_t flags, count, timestamp_bits, granularity[3];
	int64_t up, down; // nanoseconds of one copy
} fs_family;
int fs_vk_families(void);
int fs_vk_copies(int family, uint64_t size, int n, fs_family *out);

typedef struct {
	int properties; // the result of vkGetMemoryHostPointerPropertiesEXT
	uint32_t bits;  // its memory types
	int created, allocated, bound;
	int read, written; // by the device; 1 if every byte is right, 0 if not, -1 if it was not tried
} fs_import;
uint64_t fs_vk_host_alignment(void);
void fs_vk_host_import(void *p, uint64_t size, int foreign, int writable, fs_import *out);

#endif
