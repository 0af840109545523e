// Command cshared is a C library by which a Python program exchanges tensors of CUDA
// with dlx: see array_libraries_check.py.
package main

func main() {}
