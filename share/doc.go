// Package share passes tensors between the processes of one machine.
//
// Two processes are connected by a Unix socket: one calls [Listen] and [Listener.Accept],
// the other one [Dial]. [Conn.Send] passes a tensor, and [Conn.Receive] of the other process
// returns a tensor on the same memory. There is no broker.
//
// The memory is shared if the device of the tensor can export it and a device of the other
// process can open it. Otherwise it is copied once, into memory that can be shared. The
// [Report] says how the tensor was passed, and why no better way was possible. The same memory
// is passed once: a later tensor on it is a message of about a hundred bytes.
//
// # Ownership
//
// The sender still owns a tensor that it has sent. Its connection keeps the memory allocated
// until the receiver releases the tensor. The receiver releases it when it has closed the
// tensor and all tensors made from it, and when its work on the memory is done. Until then
// the memory counts as read by unfinished work: [core.Tensor.WaitIdle] of the sender waits
// for the receiver, and so does work of this module that writes the memory.
//
// The end of the connection releases all tensors that were sent. The receiver can still read
// the memory, but the sender may then overwrite it. A receiver that reads elements in place
// therefore calls [Conn.Err] afterwards: if it returns nil, the elements are those that were
// sent.
//
// # Order
//
// If both processes have a semaphore in common, Send returns while the work that writes the
// tensor is unfinished, and streams of the receiver wait for it on the device. The event
// [core.Tensor.Ready] of the received tensor reports if the work fails, or if the sender ends
// before it is done. Otherwise Send waits for the last write before the message leaves.
//
// # Rings
//
// [Conn.Publish] makes a ring of slots, each of which holds a tensor of the same type and shape, and
// [Conn.Subscribe] of other processes reads them in place. [Publisher.Loan] returns the tensor of a
// free slot, and [Publisher.Send] passes it on, without a message. [Subscription.Receive] returns
// a [Frame], whose Release gives the slot back. See [Mode] for what happens when a subscriber is slow.
//
// Send returns while the work that writes the slot is unfinished. Each subscriber waits for it: its device, by a
// semaphore, or its host, by the event Ready of the frame's tensor.
//
// # Trust
//
// The package checks every message before it uses it. A peer that breaks the rules of the
// format loses the connection. The memory itself is shared: the sender can change it at
// any time, and so can the receiver, except host memory of a read-only tensor, which is mapped
// for reading. Treat elements that another user's process can write as untrusted input.
//
// docs/share.md describes the format of the messages. The package works on Linux; on other
// systems its functions return core.ErrNotSupported.
package share
