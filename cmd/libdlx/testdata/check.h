/* What the test programs share: they end at the first thing that is not as expected. */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlx.h"

static _Thread_local dlx_error err;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s is false; the last error: %s\n", __FILE__, __LINE__, #condition, err.text); \
			exit(1); \
		} \
	} while (0)

/* The call, which ends with &err, succeeds and leaves an empty error. */
#define OK(call) \
	do { \
		memset(&err, 'x', sizeof err); \
		dlx_status got_ = (call); \
		if (got_ != DLX_OK || err.status != DLX_OK || err.text[0] != 0) { \
			fprintf(stderr, "%s:%d: %s: status %d: %s\n", __FILE__, __LINE__, #call, got_, err.text); \
			exit(1); \
		} \
	} while (0)

/* The call, which ends with &err, fails with the status and a text. */
#define FAILS(want, call) \
	do { \
		memset(&err, 0, sizeof err); \
		dlx_status got_ = (call); \
		if (got_ != (want) || err.status != (want) || err.text[0] == 0 || err.text[sizeof err.text - 1] != 0) { \
			fprintf(stderr, "%s:%d: %s: status %d, want %d: %s\n", __FILE__, __LINE__, #call, got_, want, err.text); \
			exit(1); \
		} \
	} while (0)

/* Nothing is open any more. */
static inline void check_nothing_open(void) {
	int64_t n = -1;
	OK(dlx_live(NULL, &n, &err));
	if (n != 0) {
		dlx_text *text;
		const char *data;
		OK(dlx_live_json(&text, &err));
		OK(dlx_text_data(text, &data, NULL, &err));
		fprintf(stderr, "left open: %s\n", data);
		exit(1);
	}
}

static inline dlx_tensor_spec spec_of(dlx_dtype dtype, int32_t rank, const int64_t *shape) {
	dlx_tensor_spec s;
	memset(&s, 0, sizeof s);
	s.dtype = dtype;
	s.rank = rank;
	s.shape = shape;
	return s;
}

static const dlx_dtype float32 = {2, 32, 1};

#endif
