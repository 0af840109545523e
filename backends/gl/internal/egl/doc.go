// Package egl makes OpenGL contexts without a window, by libEGL, which is opened on first use.
package egl
