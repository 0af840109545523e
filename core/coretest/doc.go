// Package coretest helps to test backends and other packages that use core. [Main] fails a
// test binary that leaves objects open. [NewBackend] makes a backend of simulated devices,
// which run work as late as the interfaces allow and whose calls fail on demand. Their
// memory has addresses or, as in most graphics APIs, opaque handles. [EachCall] makes each
// call of a driver fail once. [CopyNaive] is a simple copy to compare fast copies with.
//
// Only tests may import this package.
package coretest
