// Package machines has programs that pass the tensors of a model from one machine to another one, by package remote. Build
// them with the tag ucx. Run examples/machines/give first, with an address and a file, and then examples/machines/take with
// the address that it prints. Or run examples/machines/receive first, and then examples/machines/send with the address that it
// prints and a file. Both need the same TOKEN in the environment, of at least 16 random bytes.
package machines
