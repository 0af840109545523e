// Package handoff carries a tensor along a route of devices and reports, hop by
// hop, whether its memory was shared or copied and how long that took.
//
// It knows devices by the interfaces of core alone. A hop shares the memory where
// the tensor lies on the device already; otherwise the elements are copied by
// whichever of the two devices can reach the other's memory, by a peer copy, or
// through the host.
package handoff
