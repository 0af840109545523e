// Package move moves a tensor along a route of devices with package exchange. For each hop,
// which is a move from one device to the next, it reports the mechanism, the bytes copied and
// the time. It can compare the elements after every hop with those at the start.
package move
