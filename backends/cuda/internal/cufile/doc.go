// Package cufile calls cuFile, the library of GPUDirect Storage, which reads files into the memory of CUDA devices. The
// library is opened when it is first needed; a program that does not have it works without it.
//
// The functions and types are those that NVIDIA's cuFile API Reference Guide describes. It has not been run on a card.
package cufile
