// Package machines has programs that pass the tensors of a model from one machine to another one, by package remote. Build
// them with the tag ucx. Run examples/machines/receive first: it prints its address. Then run examples/machines/send with
// that address and a file. Both need the same TOKEN in the environment, of at least 16 random bytes. Or run
// examples/machines/offer with a file that has the token, and examples/machines/fetch on another machine.
package machines
