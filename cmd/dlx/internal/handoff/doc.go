// Package handoff carries a tensor along a route of devices by package exchange,
// and reports, hop by hop, which way it went, what was copied and how long that
// took. It can compare the elements after every hop with those that left.
package handoff
