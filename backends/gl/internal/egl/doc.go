// Package egl makes OpenGL contexts without a window, by libEGL, which is opened
// when it is first needed.
package egl
