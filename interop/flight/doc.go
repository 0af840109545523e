// Package flight passes tensors to and from any program that has Arrow Flight, such as one with PyArrow, through a
// network.
//
// A [Server] offers tensors by name. A [Client] gets them, lists them, and puts new ones. The other end may be this
// package or any implementation of Flight: a tensor is one column of the extension type arrow.fixed_shape_tensor, and
// row i of the column is element i of the tensor's first axis.
//
// # Copies
//
// Everything is copied. The sender copies the elements of each batch once, from the tensor to a buffer on the host,
// also from a device. The system copies them into the connection and out of it. The receiver copies them from gRPC's
// buffers to the tensor, or for a device first to one buffer on the host. TLS adds a pass at each end. Package share
// passes tensors between processes of one machine without copying.
//
// # Memory
//
// Batches are streamed. A sender has at most three batches in memory (see BatchBytes in the options), a receiver one
// message and a window of 1 MiB for each call, besides the tensor itself. A peer may send a message in small pieces, and
// then it takes up to twice its bytes, or many times as much in pieces of a few bytes. A connection has a read buffer of
// 256 KiB, at a client without TLS only while something arrives, and while it writes a buffer of 512 KiB. A batch has at
// least one row, so these bounds hold only for rows that are not larger than BatchBytes. A tensor whose number of rows
// the sender does not tell grows: while it does, up to four times its bytes are allocated.
//
// # Shapes
//
// The key "dlx.shape" in the metadata of the schema is the shape of the tensor as JSON, such as [2,3,4]. This package
// always writes it. A program that puts a tensor without it gives the shape by the type and the number of rows. The
// key is needed for tensors that the type cannot express:
//
//   - A tensor without axes is one row of a type without axes. Its shape is [].
//   - A tensor with extent 0 in an axis after the first one is a column without rows, of a type without axes. (Lists
//     of 0 elements are not allowed.)
//
// A type with a permutation gives a tensor with such strides.
//
// # Element types
//
// Integers of 8 to 64 bits, floating-point numbers of 16, 32 and 64 bits, and bools. A bool is one bit in Arrow, which no
// program reads as a tensor. So bools travel as uint8, and the key "dlx.dtype" in the metadata of the schema is then
// "bool": this package makes a tensor of bools of them, and other programs get bytes, which are 0 and 1 if the sender's are.
// A program that puts uint8 with that key puts bools. Other types are refused with core.ErrDType, since they have no name in
// Arrow. Convert them with AsType.
//
// # Tickets
//
// A tensor's descriptor is the path of one element, its name. Its ticket is JSON, such as
//
//	{"name": "weights", "rows": [128, 256]}
//
// The rows are a half-open range of the first axis. Without them, the ticket is for all of the tensor. The action
// "delete" with a name as its body deletes a tensor that a client has put.
//
// # Security
//
// Server and client use TLS. Without it they only connect to the same machine, and only if the options say
// Insecure. A server with tokens in its options refuses calls that do not have one of them as a bearer token in the
// header "authorization", before it reads their messages. All that arrives is checked before memory is allocated for it,
// and [Limits] bound what clients can have allocated together: the tensors that they put, and one message and a window
// for each of the calls that run at the same time. A server without a device takes only messages of 64 KiB or less. A
// client without a token can open connections, whose number is bounded, too; a call that it begins takes a window until
// it is refused, which is at once.
//
// One connection more than the limit takes the place of one that has no calls: of the oldest without a call that had a
// token, or else of the one whose last call ended first, if that is 20 seconds ago. If there is none, it is closed at
// once. So whoever has a token, or reaches a server without tokens, can take all connections. A connection is closed after
// 10 minutes without calls, and when its client takes nothing of what the server sends for 20 seconds.
package flight
