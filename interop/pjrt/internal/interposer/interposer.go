//go:build cgo && unix

package interposer

/*
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "../../abi.h"

typedef void *(*function)(void *args);
enum { functions = 10, error_functions = 3 };

static const char *const function_names[functions] = {
	"PJRT_Event_Destroy", "PJRT_Event_IsReady", "PJRT_Event_Await", "PJRT_Buffer_GetMemoryLayout",
	"PJRT_Buffer_OnDeviceSizeInBytes", "PJRT_Buffer_IsOnCpu", "PJRT_Buffer_ReadyEvent",
	"PJRT_Buffer_IncreaseExternalReferenceCount", "PJRT_Buffer_DecreaseExternalReferenceCount", "",
};
static const int32_t offsets[functions] = {
	off_PJRT_Event_Destroy, off_PJRT_Event_IsReady, off_PJRT_Event_Await, off_PJRT_Buffer_GetMemoryLayout,
	off_PJRT_Buffer_OnDeviceSizeInBytes, off_PJRT_Buffer_IsOnCpu, off_PJRT_Buffer_ReadyEvent,
	off_PJRT_Buffer_IncreaseExternalReferenceCount, off_PJRT_Buffer_DecreaseExternalReferenceCount, -1,
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int calls[functions], fail[functions], with, unready;
static int events, holds, errors;
static function real[functions], real_error[error_functions];
static int the_error; // its address is the error of the calls that fail

static void *pass(int i, void *args) {
	pthread_mutex_lock(&mu);
	calls[i]++;
	int fails = fail[i] > 0 && --fail[i] == 0;
	// What fails to release releases.
	events += i == 6 && !fails ? 1 : i == 0 ? -1 : 0;
	holds += i == 7 && !fails ? 1 : i == 8 ? -1 : 0;
	errors += fails;
	int late = i == 1 && unready > 0 && unready--;
	pthread_mutex_unlock(&mu);
	if (fails && i != 0 && i != 8)
		return &the_error;
	void *failed = real[i](args);
	if (late)
		((dlx_pjrt_args *)args)->out.flag = false;
	return fails ? &the_error : failed;
}
#define PASS(i) static void *pass##i(void *args) { return pass(i, args); }
PASS(0) PASS(1) PASS(2) PASS(3) PASS(4) PASS(5) PASS(6) PASS(7) PASS(8)

static void *destroy_error(void *args) {
	if (((dlx_pjrt_args *)args)->object != &the_error)
		return real_error[0](args);
	pthread_mutex_lock(&mu);
	errors--;
	pthread_mutex_unlock(&mu);
	return NULL;
}

static void *message(void *args) {
	dlx_pjrt_message_args *m = args;
	if (m->error != &the_error)
		return real_error[1](args);
	m->message = "the interposer was told to fail";
	m->message_size = strlen(m->message);
	return NULL;
}

static void *get_code(void *args) {
	if (((dlx_pjrt_args *)args)->object != &the_error)
		return real_error[2](args);
	((dlx_pjrt_args *)args)->out.code = with;
	return NULL;
}

static function *at(void *api, int32_t offset) { return (function *)((char *)api + offset); }

static void *before(const void *api) {
	static const function ours[] = {pass0, pass1, pass2, pass3, pass4, pass5, pass6, pass7, pass8};
	static const function of_errors[] = {destroy_error, message, get_code};
	static const int32_t error_offsets[] = {off_PJRT_Error_Destroy, off_PJRT_Error_Message, off_PJRT_Error_GetCode};
	size_t size = *(const size_t *)api;
	void *table = memcpy(malloc(size), api, size);
	for (int i = 0; offsets[i] >= 0; i++) {
		real[i] = *at(table, offsets[i]);
		*at(table, offsets[i]) = ours[i];
	}
	for (int i = 0; i < error_functions; i++) {
		real_error[i] = *at(table, error_offsets[i]);
		*at(table, error_offsets[i]) = of_errors[i];
	}
	return table;
}

static void set(int i, int nth, int code) {
	pthread_mutex_lock(&mu);
	fail[i] = nth;
	with = code;
	pthread_mutex_unlock(&mu);
}

static void set_unready(int n) {
	pthread_mutex_lock(&mu);
	unready = n;
	pthread_mutex_unlock(&mu);
}

static int get(int *p) {
	pthread_mutex_lock(&mu);
	int n = *p;
	pthread_mutex_unlock(&mu);
	return n;
}
static const char *name_of(int i) { return function_names[i]; } // "" behind the last one
static int called(int i) { return get(&calls[i]); }
static int live(int i) { return get(i == 0 ? &events : i == 1 ? &holds : &errors); }
*/
import "C"

import "unsafe"

// Interposer is a table of functions. There is one in a process.
type Interposer struct{ Table unsafe.Pointer }

// Before returns the table that stands before that of a plugin. It is never freed.
func Before(api unsafe.Pointer) Interposer { return Interposer{C.before(api)} }

// Fail makes the nth call of a function from now on fail with a code; 0 cancels that.
func (Interposer) Fail(call string, nth, code int) {
	for i, name := range names() {
		if name == call {
			C.set(C.int(i), C.int(nth), C.int(code))
		}
	}
}

func names() (all []string) {
	for name := C.name_of(0); *name != 0; name = C.name_of(C.int(len(all))) {
		all = append(all, C.GoString(name))
	}
	return all
}

// Calls returns how often each function was called.
func (Interposer) Calls() map[string]int {
	calls := make(map[string]int)
	for i, name := range names() {
		if n := int(C.called(C.int(i))); n > 0 {
			calls[name] = n
		}
	}
	return calls
}

// Live returns how many objects are open, by kind.
func (Interposer) Live() map[string]int {
	live := make(map[string]int)
	for i, kind := range []string{"events", "external references", "errors"} {
		if n := int(C.live(C.int(i))); n != 0 {
			live[kind] = n
		}
	}
	return live
}

// NotReady lets the next n questions whether a buffer is written be answered with no.
func (Interposer) NotReady(n int) { C.set_unready(C.int(n)) }
