// Package share passes tensors between the processes of one machine.
//
// Two processes are connected by a Unix socket: one calls [Listen] and [Listener.Accept],
// the other one [Dial]. [Conn.Send] passes a tensor, and [Conn.Receive] of the other process
// returns a tensor on the same memory. There is no broker, and no name in the system but
// that of the socket.
//
// The memory is shared if the device of the tensor can export it and a device of the other
// process can open it. Otherwise it is copied once, into memory that can be shared. The
// [Report] says what was done, and why nothing better was possible. A memory is passed once:
// later tensors on it are messages of about a hundred bytes.
//
// # Ownership
//
// A tensor that was sent stays the sender's. The sender's connection keeps the memory
// allocated until the receiver has released the tensor, which means that the receiver has
// closed it and everything made of it, and that the work on it is done. Until then the
// memory counts as read by unfinished work: [core.Tensor.WaitIdle] of the sender waits for
// the receiver, and so does work of this module that writes the memory.
//
// The end of the connection, for whatever reason, releases all tensors that were sent. The
// receiver can still read the memory, but the sender may then overwrite it. A receiver that
// reads elements in place therefore asks [Conn.Err] afterwards: if it returns nil, the
// elements were those that were sent.
//
// # Order
//
// Send waits for the last write to the tensor before the message leaves. A tensor that was
// received may be read at once.
//
// # Trust
//
// Everything that arrives is checked before it is used. A peer that breaks the rules of the
// format loses the connection. The memory itself is shared: a peer can change what it was
// given at any time, also that of a read-only tensor. What is read from shared memory must be
// treated like input.
//
// docs/share.md describes the format of the messages. The package works on Linux; on other
// systems its functions return core.ErrNotSupported.
package share
