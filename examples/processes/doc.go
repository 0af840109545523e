// Package processes has programs that pass tensors from one process to another one. Run
// examples/processes/receive in one terminal, and examples/processes/send in another one. Likewise,
// examples/processes/subscribe and examples/processes/publish pass frames through a ring.
package processes
