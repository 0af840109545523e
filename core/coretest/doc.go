// Package coretest is for the tests of everything above core: [Main] fails a
// test binary that leaves objects open, [NewBackend] makes a simulated
// asynchronous device whose work runs as late as it may and whose calls fail on
// demand, with addresses or, like most graphics APIs, with opaque handles, and
// [CopyNaive] is the slow copy that faster ones are compared with.
//
// Nothing outside of tests may use it.
package coretest
