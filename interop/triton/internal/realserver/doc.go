// Package realserver runs Triton's server with models in Python, for tests, examples and benchmarks. The server is the one
// in the package nvidia-pytriton of PyPI, which needs no card. Make installs it (requirements-triton.txt).
package realserver
