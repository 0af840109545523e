// Command cshared is built as a C shared library by the tests of package dlpack,
// which load it into Python to exchange tensors with the real NumPy.
package main

func main() {}
