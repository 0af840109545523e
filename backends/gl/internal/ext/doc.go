// Package ext calls OpenGL's extensions for memory and semaphores of other APIs: GL_EXT_memory_object,
// GL_EXT_semaphore, their _fd forms and GL_NV_timeline_semaphore.
//
// Only go-gl's bindings of the compatibility profiles have them, and these take three times as long to
// compile as those of the core profile, which have everything else.
package ext
