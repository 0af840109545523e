// Command cshared is a C library with which a Python program exchanges tensors of CUDA with dlx. It is used by
// array_libraries_check.py.
package main

func main() {}
