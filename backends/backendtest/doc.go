// Package backendtest is the conformance suite for backends: cases that check, on any device, what the
// interfaces of core promise.
//
// A backend runs all cases from one test, in a package whose TestMain is that of core/coretest:
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, func(tb testing.TB) core.Device {
//			d, err := cpu.New().Open(tb.Context(), core.CPU)
//			if err != nil {
//				tb.Fatal(err)
//			}
//			return d
//		}, backendtest.Options{})
//	}
//
// A backend whose driver may be missing calls its Probe first, and skips or fails the test with the reason.
//
// Options supply what the interfaces of core cannot: how to open a second device (Peer of [Options]), how other
// libraries make memory (Pointer), and how the API keeps a stream from going on (Hold).
//
// # Cases
//
// Every [Case] has its rule as text, which begins with the source of the rule. It is printed when the case
// fails. [Cases] lists all cases.
//
// A case is skipped only if the device does not declare a capability in core.Properties that the case needs,
// or if it declares one whose absence the case tests. It is a failure to declare a capability without its
// interface, or to do what an undeclared capability stands for. There is one exception: the cases on DLPack
// are skipped in a build without DLPack, and for OpenGL, which DLPack does not know.
//
// Memory may have addresses, or handles with offsets beside them. No case adds to a handle, compares it with
// the handle of other memory, or reads through it.
//
// Each case opens a device and closes it. The counters of core.Live must then show that nothing is open.
//
// # The oracle
//
// Results are compared with copies that are made in host memory, one element after the other. Whole
// allocations are compared, with guard bytes around the elements, so that a write beside them is detected.
// The cases trust a device only to upload and download a row of bytes, and one case tests that.
//
// # Random programs
//
// [Programs] runs random programs of allocations, copies, streams and events on a device. It compares the
// resulting memory with that of the same steps in host memory.
//
// # Time
//
// To test whether work waits, a case holds a stream back: by an event of the host, else by what Hold
// supplies, else by a semaphore. On a device that offers none of these, the case keeps the stream busy. A
// missing wait is then likely to be detected, but not certain.
package backendtest
