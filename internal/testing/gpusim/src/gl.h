// gl.h is what the simulator calls of the OpenGL that the process has: nothing of it is
// linked, and a process without OpenGL loses nothing.
#ifndef DLX_GPUSIM_GL_H
#define DLX_GPUSIM_GL_H

#include "sim.h"

// sim_gl_buffer_size returns the bytes of a buffer of the calling thread's GL context.
// CUDA_ERROR_INVALID_GRAPHICS_CONTEXT: no context is current; CUDA_ERROR_INVALID_VALUE: it
// has no buffer of this name with bytes in it.
CUresult sim_gl_buffer_size(unsigned buffer, size_t *size);

// sim_gl_read waits for the commands so far and copies the first bytes of a buffer out of it;
// sim_gl_write copies them into it. The results are those of sim_gl_buffer_size, and
// CUDA_ERROR_UNKNOWN where GL refuses.
CUresult sim_gl_read(unsigned buffer, size_t size, void *to);
CUresult sim_gl_write(unsigned buffer, size_t size, const void *from);

#endif
