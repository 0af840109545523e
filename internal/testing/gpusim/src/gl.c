// gl.c: OpenGL's buffers, by the functions of whichever of EGL and GLX has a context current on
// the calling thread.

#include "gl.h"

#include <GL/gl.h>
#include <GL/glext.h>
#include <dlfcn.h>

typedef void (*function)(void);
typedef function (*get_proc)(const char *);
typedef void *(*get_context)(void);

// platform is a library that makes contexts. It is not loaded for our sake: a process
// whose context it made has it.
static const struct platform {
    const char *library, *current, *get;
} platforms[] = {
    {"libEGL.so.1", "eglGetCurrentContext", "eglGetProcAddress"},
    {"libGLX.so.0", "glXGetCurrentContext", "glXGetProcAddressARB"},
    {"libGL.so.1", "glXGetCurrentContext", "glXGetProcAddressARB"},
};

// find_proc returns what finds the functions of the current context, NULL if none is current.
static get_proc find_proc(void) {
    for (size_t i = 0; i < sizeof platforms / sizeof *platforms; i++) {
        void *library = dlopen(platforms[i].library, RTLD_NOW | RTLD_NOLOAD);
        if (library == NULL) continue;
        get_context current = (get_context)dlsym(library, platforms[i].current);
        get_proc get = (get_proc)dlsym(library, platforms[i].get);
        bool made = current != NULL && current() != NULL;
        dlclose(library);  // the process keeps it
        if (made) return get;
    }
    return NULL;
}

typedef GLenum get_error(void);
typedef void get_integer(GLenum, GLint *);

typedef struct {
    get_error *error;
    get_integer *integer;
    PFNGLISBUFFERPROC is_buffer;
    PFNGLGENBUFFERSPROC generate;
    PFNGLDELETEBUFFERSPROC delete;
    PFNGLBINDBUFFERPROC bind;
    PFNGLBUFFERDATAPROC data;
    PFNGLGETBUFFERSUBDATAPROC read;
    PFNGLCOPYBUFFERSUBDATAPROC copy;
    PFNGLGETBUFFERPARAMETERI64VPROC parameter;
} calls;

static bool find_calls(calls *gl) {
    get_proc get = find_proc();
    if (get == NULL) return false;
    gl->error = (get_error *)get("glGetError");
    gl->integer = (get_integer *)get("glGetIntegerv");
    gl->is_buffer = (PFNGLISBUFFERPROC)get("glIsBuffer");
    gl->generate = (PFNGLGENBUFFERSPROC)get("glGenBuffers");
    gl->delete = (PFNGLDELETEBUFFERSPROC)get("glDeleteBuffers");
    gl->bind = (PFNGLBINDBUFFERPROC)get("glBindBuffer");
    gl->data = (PFNGLBUFFERDATAPROC)get("glBufferData");
    gl->read = (PFNGLGETBUFFERSUBDATAPROC)get("glGetBufferSubData");
    gl->copy = (PFNGLCOPYBUFFERSUBDATAPROC)get("glCopyBufferSubData");
    gl->parameter = (PFNGLGETBUFFERPARAMETERI64VPROC)get("glGetBufferParameteri64v");
    return gl->error && gl->integer && gl->is_buffer && gl->generate && gl->delete && gl->bind &&
           gl->data && gl->read && gl->copy && gl->parameter;
}

// bound binds a buffer where copies read or write, and returns what was bound there.
static GLuint bound(const calls *gl, GLenum target, GLenum query, GLuint buffer) {
    GLint before = 0;
    gl->integer(query, &before);
    gl->bind(target, buffer);
    return (GLuint)before;
}

CUresult sim_gl_buffer_size(unsigned buffer, size_t *size) {
    calls gl;
    if (!find_calls(&gl)) return CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;
    if (!gl.is_buffer(buffer)) return CUDA_ERROR_INVALID_VALUE;
    GLint64 bytes = 0;
    GLuint before = bound(&gl, GL_COPY_READ_BUFFER, GL_COPY_READ_BUFFER_BINDING, buffer);
    gl.parameter(GL_COPY_READ_BUFFER, GL_BUFFER_SIZE, &bytes);
    gl.bind(GL_COPY_READ_BUFFER, before);
    if (bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
    *size = (size_t)bytes;
    return CUDA_SUCCESS;
}

CUresult sim_gl_read(unsigned buffer, size_t size, void *to) {
    calls gl;
    size_t present;
    CUresult r = sim_gl_buffer_size(buffer, &present);
    if (r == CUDA_SUCCESS && !find_calls(&gl)) r = CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;
    if (r != CUDA_SUCCESS) return r;
    if (present < size) return CUDA_ERROR_UNKNOWN;
    GLuint before = bound(&gl, GL_COPY_READ_BUFFER, GL_COPY_READ_BUFFER_BINDING, buffer);
    gl.read(GL_COPY_READ_BUFFER, 0, (GLsizeiptr)size, to);
    gl.bind(GL_COPY_READ_BUFFER, before);
    return gl.error() == GL_NO_ERROR ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// A buffer may be one that the host may not write; by way of a second buffer it works for all.
CUresult sim_gl_write(unsigned buffer, size_t size, const void *from) {
    calls gl;
    size_t present;
    CUresult r = sim_gl_buffer_size(buffer, &present);
    if (r == CUDA_SUCCESS && !find_calls(&gl)) r = CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;
    if (r != CUDA_SUCCESS) return r;
    if (present < size) return CUDA_ERROR_UNKNOWN;
    GLuint staging = 0;
    gl.generate(1, &staging);
    GLuint read = bound(&gl, GL_COPY_READ_BUFFER, GL_COPY_READ_BUFFER_BINDING, staging);
    GLuint write = bound(&gl, GL_COPY_WRITE_BUFFER, GL_COPY_WRITE_BUFFER_BINDING, buffer);
    gl.data(GL_COPY_READ_BUFFER, (GLsizeiptr)size, from, GL_STREAM_DRAW);
    gl.copy(GL_COPY_READ_BUFFER, GL_COPY_WRITE_BUFFER, 0, 0, (GLsizeiptr)size);
    gl.bind(GL_COPY_READ_BUFFER, read);
    gl.bind(GL_COPY_WRITE_BUFFER, write);
    gl.delete(1, &staging);
    return gl.error() == GL_NO_ERROR ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
