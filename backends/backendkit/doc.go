// Package backendkit has what authors of backends use beside package core, and what users of tensors do not need:
// the checks that calls of a device begin with, the optional interfaces between a device and the rest of dlx, handles,
// and the counts of what is open. Package stream orders the work of a device. Package backendtest tests it, and
// backends/README.md is the guide.
//
// A device uses two counts. An [OpenSet] counts what is open on one device, so that its Close can refuse and say what is
// open. A [LiveCounter] counts all objects of one kind in the process for core.Live, with which tests find leaks.
package backendkit
