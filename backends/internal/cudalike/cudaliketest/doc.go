// Package cudaliketest has what the tests of all backends over package cudalike share: a [Kit] opens their devices, and
// has programs that use everything that devices can do.
package cudaliketest
