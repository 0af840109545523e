/* What Go needs to know of cv::Mat. A matrix is a void *, as gocv returns it. No function throws. */
#ifndef DLX_OPENCV_MAT_H
#define DLX_OPENCV_MAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { dlxcv_rank = 32 }; /* OpenCV's CV_MAX_DIM, which is not in its C++ headers */

struct dlxcv_mat {
	int rank, depth, channels;
	int counted; /* OpenCV counts the references to the memory */
	int64_t shape[dlxcv_rank];
	uint64_t steps[dlxcv_rank]; /* in bytes */
	uintptr_t data, end;        /* end: of the memory, behind the last byte */
};

void dlxcv_describe(void *mat, struct dlxcv_mat *d);

/* dlxcv_share returns another header of the matrix, which holds a reference to its memory, or NULL. dlxcv_free
 * deletes it. */
void *dlxcv_share(void *mat);
void dlxcv_free(void *mat);

/* dlxcv_lend makes a matrix of the caller a header of memory of a managed tensor of DLPack, whose deleter is called
 * with the end of the last header. It returns 0 on failure, and then does not take the tensor. */
int dlxcv_lend(void *mat, int rank, const int *shape, const size_t *steps, int depth, int channels, uintptr_t data, void *managed);

#ifdef __cplusplus
}
#endif

#endif
