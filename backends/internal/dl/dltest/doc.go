// Package dltest makes drivers that misbehave, for tests: [Hijack] puts a library in front of
// a driver's that takes over the process's handlers of signals.
package dltest
