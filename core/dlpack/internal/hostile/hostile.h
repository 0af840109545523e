/* Producers and consumers for tests. */
#ifndef DLX_HOSTILE_H
#define DLX_HOSTILE_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

/* A managed tensor in pages of its own. Its deleter counts the call and makes the
 * pages inaccessible, so that whoever touches them afterwards crashes. */
struct producer {
	void *managed; /* the struct, then shape and strides */
	void *pages;   /* what it lies in */
	size_t size;
	_Atomic int deleted;
};

/* new_producer returns NULL if there is no memory. ndims is the length of dims. */
struct producer *new_producer(const void *managed, size_t managed_size, const int64_t *dims, size_t ndims);
/* new_truncated_producer puts the head of a struct at the end of a page, before one
 * that cannot be accessed. */
struct producer *new_truncated_producer(const void *head, size_t head_size);
int producer_deleted(struct producer *p);
void free_producer(struct producer *p);
void delete_producer(DLManagedTensorVersioned *self);
void delete_producer_legacy(DLManagedTensor *self);

/* A fickle producer changes its structs from a thread of its own, again and again,
 * for as long as it lives: every field but the deleter takes valid and invalid
 * values by turns, and shape and strides have room for any ndim that is accepted.
 * Deleters only count. */
struct fickle;
struct fickle *new_fickle(uintptr_t data); /* NULL if there is no memory or thread */
DLManagedTensorVersioned *fickle_versioned(struct fickle *f);
DLManagedTensor *fickle_legacy(struct fickle *f);
int64_t fickle_deleted(struct fickle *f);
/* fickle_drop_deleter has the deleter be NULL by turns, too. */
void fickle_drop_deleter(struct fickle *f);
void free_fickle(struct fickle *f);

/* A managed tensor that can be imported again and again: its deleter only counts. */
DLManagedTensorVersioned *immortal(void);
int64_t immortal_deleted(void);

/* gather copies the elements of item bytes in row-major order to out, as a
 * consumer that knows strides and offset would. */
void gather(const DLTensor *t, size_t item, char *out);

/* consume reads the fields and the first element's address, and calls the
 * deleter. It returns what it read, so that nothing can be left out. */
uint64_t consume(uintptr_t managed);

/* run_deleter calls the deleter of a managed tensor on a thread of its own and
 * waits for it; it returns 0 if errno was left as it was there. */
int run_deleter(uintptr_t managed, int legacy);

/* A pool of threads that call the deleters of what they are given. */
struct reaper;
struct reaper *new_reaper(int threads);
void reaper_give(struct reaper *r, uintptr_t managed);
void reaper_close(struct reaper *r); /* after all is deleted */

/* Exchange tables with allocators that misbehave. */
enum { table_fails, table_null, table_wrong_shape, table_silent, table_kinds };
DLPackExchangeAPI *hostile_table(int kind);
void set_failure(const char *kind); /* the kind of error of table_fails */

/* The functions of a table, called as a foreign consumer calls them. */
int call_allocator(uintptr_t api, int32_t device_type, int32_t ndim, uint8_t bits, int64_t *shape, uintptr_t *out, char *kind, size_t kind_size);
int call_py_functions(uintptr_t api); /* the sum of the two answers */
int call_work_stream(uintptr_t api, int32_t device_type);

void empty_call(void);

#endif
