// Package objc calls Metal through the Objective-C runtime, without cgo: it implements [driver.Driver] by messages that
// purego sends. Open works on macOS. On other systems the package has the table of what it declares, which a test
// compares with Apple's headers, and its tests send the same messages to a library in C that stands for Metal.
//
// This package has not run on a Mac.
//
// Whatever a method of the table returns is owned by the rules of names: a method whose name begins with new or copy
// returns an object that the caller owns; see [Method.Owned].
package objc
