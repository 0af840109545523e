// The functions of the extensions, each of which is called through its address.

#ifndef DLX_GL_EXT_CALLS_H
#define DLX_GL_EXT_CALLS_H

#include <stdint.h>
#include <GL/gl.h>
#include <GL/glext.h>

static inline GLint dlx_get_integer(uintptr_t f, GLenum name) {
	GLint value = 0;
	((void (*)(GLenum, GLint *))f)(name, &value);
	return value;
}
static inline void dlx_get_uuid(uintptr_t f, GLenum name, GLubyte *uuid) { ((PFNGLGETUNSIGNEDBYTEVEXTPROC)f)(name, uuid); }
static inline void dlx_get_uuid_i(uintptr_t f, GLenum name, GLuint i, GLubyte *uuid) {
	((PFNGLGETUNSIGNEDBYTEI_VEXTPROC)f)(name, i, uuid);
}
static inline GLuint dlx_create_memory(uintptr_t f) {
	GLuint name = 0;
	((PFNGLCREATEMEMORYOBJECTSEXTPROC)f)(1, &name);
	return name;
}
static inline void dlx_delete_memory(uintptr_t f, GLuint name) { ((PFNGLDELETEMEMORYOBJECTSEXTPROC)f)(1, &name); }
static inline void dlx_memory_parameter(uintptr_t f, GLuint memory, GLenum name, GLint value) {
	((PFNGLMEMORYOBJECTPARAMETERIVEXTPROC)f)(memory, name, &value);
}
static inline void dlx_import_memory(uintptr_t f, GLuint memory, GLuint64 size, GLint fd) {
	((PFNGLIMPORTMEMORYFDEXTPROC)f)(memory, size, GL_HANDLE_TYPE_OPAQUE_FD_EXT, fd);
}
static inline void dlx_buffer_storage(uintptr_t f, GLuint buffer, int64_t size, GLuint memory, GLuint64 offset) {
	((PFNGLNAMEDBUFFERSTORAGEMEMEXTPROC)f)(buffer, (GLsizeiptr)size, memory, offset);
}
static inline GLuint dlx_create_semaphore(uintptr_t f) {
	GLuint name = 0;
	((PFNGLCREATESEMAPHORESNVPROC)f)(1, &name);
	return name;
}
static inline void dlx_delete_semaphore(uintptr_t f, GLuint name) { ((PFNGLDELETESEMAPHORESEXTPROC)f)(1, &name); }
static inline void dlx_semaphore_type(uintptr_t f, GLuint semaphore, GLint type) {
	((PFNGLSEMAPHOREPARAMETERIVNVPROC)f)(semaphore, GL_SEMAPHORE_TYPE_NV, &type);
}
static inline void dlx_import_semaphore(uintptr_t f, GLuint semaphore, GLint fd) {
	((PFNGLIMPORTSEMAPHOREFDEXTPROC)f)(semaphore, GL_HANDLE_TYPE_OPAQUE_FD_EXT, fd);
}
static inline void dlx_semaphore_value(uintptr_t f, GLuint semaphore, GLuint64 value) {
	((PFNGLSEMAPHOREPARAMETERUI64VEXTPROC)f)(semaphore, GL_TIMELINE_SEMAPHORE_VALUE_NV, &value);
}
// Signalling and waiting take the same arguments: no buffers and no textures.
static inline void dlx_semaphore(uintptr_t f, GLuint semaphore) {
	((PFNGLSIGNALSEMAPHOREEXTPROC)f)(semaphore, 0, NULL, 0, NULL, NULL);
}

#endif
