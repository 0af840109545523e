// Package interposer makes, for tests, a table of functions that stands before a plugin of PJRT: it counts calls and what they
// leave open, lets one of them fail, and says for a while that a buffer is not written.
package interposer
