// Package processes has two programs that pass a tensor from one process to another one: run
// examples/processes/receive in one terminal, and examples/processes/send in another one.
package processes
