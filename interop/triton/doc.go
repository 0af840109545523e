// Package triton sends tensors to NVIDIA's Triton Inference Server, and to other servers of the KServe v2 protocol, and
// returns their answers as tensors. [Dial] makes a client that speaks gRPC, and [DialHTTP] one that speaks HTTP with binary
// tensors.
//
//	c, err := triton.Dial("localhost:8001", triton.Options{})
//	...
//	defer c.Close()
//	x, err := c.Empty(ctx, core.TypeFloat32, []int64{1, 3, 1024, 1024}) // fill it by core.Mutable
//	...
//	result, err := c.Infer(ctx, "classifier", map[string]*core.Tensor{"image": x}, triton.InferOptions{})
//	...
//	defer result.Close()
//	scores := result.Outputs["scores"]
//
// # How a tensor travels
//
// A [Report] says for each tensor by which [Mechanism] it travelled, how many bytes this process copied, and why no better
// way was possible:
//
//   - [Shared]: the tensor lies in shared memory of the system, which the server opens by its name. Only a few hundred bytes
//     travel. A tensor that [Client.Empty] made is used where it lies; any other is copied once, straight from its device.
//   - [SharedCUDA]: the same with memory of a CUDA device, if Options.CUDA is set: see "CUDA" below.
//   - [Raw]: the bytes are part of the message. That is for small tensors, and for servers that cannot open the memory, such
//     as those on other machines or in containers without the same /dev/shm.
//
// An output goes to shared memory if its size is known: from [Output], or from an earlier answer of the same model. The first
// answer of a model is therefore raw, unless the caller gives sizes.
//
// # Shared memory
//
// The client keeps a pool of regions. Each is a file in /dev/shm with the mode 0600, is registered with the server once, and
// has places for tensors of one size class. A place returns to the pool when the last tensor on it is closed. Close of the
// client takes all regions away from the server and removes their names; tensors that are still open stay valid.
//
// A process that is killed leaves the names of its regions. The client locks each file (flock), so that the next client of
// the same user, also one in another container with the same /dev/shm, recognizes files without a living owner. It removes
// them, and takes them away from the server that it registers its own regions with.
//
// The server must be able to open the files. It therefore runs as the same user or as root, and with the same /dev/shm (in
// Docker, --ipc=host or a shared volume).
//
// If a server restarts, it has lost its registrations. The client then registers the regions again and repeats the request
// once. If a request ends without an answer, because its context ended or the connection broke, the server may still write
// to the outputs. Their regions are not used again, and are removed when their last tensor is closed.
//
// The contents of shared memory are what the server writes, at any time. What it says of them (names, element types, shapes,
// sizes and places) is checked before it is used. A process of the same user can truncate the files, as it can end the
// process.
//
// # CUDA
//
// With Options.CUDA, tensors on a CUDA device travel through device memory that the server opens by an interprocess handle
// (cudaIpcMemHandle_t). [Client.EmptyOn] makes tensors that are used where they lie, others are copied once, within the
// device. The server opens no other kind of handle, such as descriptors of CUDA's virtual memory. The server must run on the
// same machine, and give the devices the same numbers: the client sends the index of the device. This half of the exchange is tested with a
// simulated driver and a server of the tests; no Triton server on a card has opened such memory yet.
//
// # Element types
//
// BOOL, INT8 to INT64, UINT8 to UINT64, FP16, BF16, FP32 and FP64 are the types of dlx of the same sizes. BYTES, whose
// elements are strings, is refused with core.ErrDType: a tensor has elements of one size.
//
// # Errors
//
// Errors of the server wrap core.ErrInvalid, core.ErrNotSupported or core.ErrOutOfMemory, and carry the code of gRPC or HTTP
// as Code of core.Error. If no server answers, the error wraps [ErrUnavailable]. If a context ends, the error is that of the
// context.
package triton
