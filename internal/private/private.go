// Package private leads to what core, share and stream do for the other packages of this module and for
// nobody else: it is too special, or too easy to misuse, for their public API.
package private

// Core has the methods. Package core sets it before any package that imports core is
// initialised. This package cannot name the types of core, so whoever calls a method
// asserts its signature, in a package-level variable: a wrong one ends the program at its
// start, and with it every test.
//
//	var privateCore = private.Core.(interface{ Unique(*core.Buffer) bool })
var Core any

// Share has what package share does for internal/doctor. Package share sets it in the same way.
var Share any

// Stream has what package stream does for backends. Package stream sets it in the same way.
var Stream any
