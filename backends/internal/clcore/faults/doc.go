// Package faults makes calls of OpenCL fail, for tests: it stands between the
// table of package driver and the library.
package faults
