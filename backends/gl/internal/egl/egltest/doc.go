// Package egltest has functions of EGL that answer what a test sets, for tests of package egl.
package egltest
