// Package link makes a program that imports go-gl start on machines without
// libGL and libEGL. It has no functions: importing it is enough.
//
// go-gl asks the linker for libGL, by pkg-config, for the one function that finds
// all others, and the program would then not start where the library is missing.
// This package defines that function, so nothing is missing without the library,
// and puts a folder in front of the linker's search path in which libGL.so and
// libEGL.so are scripts that name the real libraries AS_NEEDED: they are linked
// only into programs that use them for something else.
package link
