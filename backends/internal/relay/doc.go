// Package relay brings functions to a thread of somebody else's: that on which a context of
// OpenGL is current which a program draws with. See [Relay].
package relay
