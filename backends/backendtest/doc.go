// Package backendtest is the conformance suite of backends: what the interfaces
// of core promise, as cases that any device can be held to.
//
// A backend runs all of it from one test of its own, in a package whose TestMain
// is that of core/coretest:
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, func(tb testing.TB) core.Device {
//			d, err := cpu.New().Open(tb.Context(), core.CPU)
//			if err != nil {
//				tb.Fatal(err)
//			}
//			return d
//		})
//	}
//
// A backend whose driver may be missing asks its Probe first, and says so. Options
// tell what the suite cannot find out by the interfaces of core: how to open a
// second device ([WithPeer]), how other libraries make memory ([WithPointer]) and
// how the API holds a stream back ([WithHold]).
//
// # Cases
//
// Every [Case] carries its rule as text, with the place that the rule comes from;
// it is printed when the case fails. [Cases] lists them.
//
// A case is skipped only if the device does not declare a capability that it
// needs in core.Properties, or declares one whose lack it is about. To declare one
// without offering its interface, or to offer the interface undeclared, is a
// failure. One thing is not the device's to declare: the cases on DLPack are
// skipped in a build that has none, and for OpenGL, which DLPack does not know.
//
// Memory may have addresses, or handles with offsets beside them: no case adds to
// a handle, compares it with that of other memory, or reads through it.
//
// Each case opens a device and closes it; nothing may be left open then, by the
// counters of core.Live.
//
// # The oracle
//
// Contents are compared with copies made in host memory, one element after the
// other. Whole allocations are compared, with guard bytes around the elements, so
// that a write beside them is seen. Uploading and downloading a row of bytes is
// all that a device is trusted with, and a case of its own.
//
// # Programs
//
// [Programs] runs random programs of allocations, copies, streams and events on a device, and
// compares what they leave with what the same steps leave in memory of the host.
//
// # Time
//
// To see whether work waits, a case holds a stream back by an event of the host,
// else by what WithHold names, else by a semaphore; on a device that offers none of
// them it keeps the stream busy, so that a missing wait is likely to show, but need not.
package backendtest
