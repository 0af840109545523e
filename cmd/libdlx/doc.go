// Libdlx is the C shared library of dlx. scripts/build-libdlx.sh builds it, dlx.h is its interface, and
// docs/libdlx.md is a guide.
//
// A function of the interface is a thin one in C (entry.c), which first checks that the process is no child of fork: Go's
// runtime does not survive that. Then it calls the function of the same name here. That one finds the objects behind
// its handles, calls the other packages of dlx, and makes handles of the results. do turns errors, and panics, into a
// status and a text.
package main
