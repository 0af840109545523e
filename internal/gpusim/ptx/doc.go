// Package ptx runs kernels in PTX on the host. Its C files are a part of the simulated
// driver, which runs what a card would compile; from Go they are there for the
// tests of kernels and of themselves. ptx.h says what they cover.
package ptx
