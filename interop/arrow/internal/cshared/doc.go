// Command cshared is a C library with which a Python program exchanges arrays with dlx through the Arrow C device
// interface. check.py uses it.
package main

func main() {}
