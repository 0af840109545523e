// Package ext calls OpenGL's extensions for memory and semaphores of other APIs:
// GL_EXT_memory_object, GL_EXT_semaphore, their _fd forms and GL_NV_timeline_semaphore.
//
// Of go-gl's bindings only those of the compatibility profiles have these, and they
// take three times as long to compile as the core profile's, which have the rest.
package ext
