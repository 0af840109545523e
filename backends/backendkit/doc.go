// Package backendkit is for authors of backends. It has the checks with which calls of a device begin, optional
// interfaces between a device and the rest of dlx, constructors of handles, and counts of open objects. Programs that only
// use tensors do not need it.
//
// Package stream orders the work of a device. Package backendtest tests a device. The guide to a new backend is
// backends/README.md.
//
// An [OpenSet] counts the open objects of a device, so that Close can refuse and name them. Its counts are part of
// core.Live, by which tests find leaks.
package backendkit
