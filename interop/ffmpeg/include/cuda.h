/* What libavutil/hwcontext_cuda.h needs of cuda.h: its struct has only pointers. */
#ifndef DLX_FFMPEG_CUDA_H
#define DLX_FFMPEG_CUDA_H

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;

#endif
