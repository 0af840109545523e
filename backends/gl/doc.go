// Package gl is the backend of OpenGL.
package gl
