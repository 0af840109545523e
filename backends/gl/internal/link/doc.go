// Package link makes a program that imports go-gl start on machines without libGL and libEGL. It has no
// functions: importing it is enough.
//
// go-gl asks the linker, by pkg-config, for libGL, only for the one function that finds all others. The
// program would then not start where the library is missing. This package defines that function. It also puts
// a folder at the front of the linker's search path, in which libGL.so and libEGL.so are linker scripts that
// name the real libraries AS_NEEDED. The real libraries are then linked only into programs that use them for
// something else.
package link
