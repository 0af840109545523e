// Loaders measures how fast tensors come from files into memory: dlx beside reading alone and beside the loaders of other
// projects, on one file of small tensors and one of large ones, with a cold and with a warm page cache.
//
//	make bench-loaders
//	go run ./benchmarks/lab/loaders --small-file 32MiB --large-tensor 128MiB --rounds 3
//
// It also measures how long it takes to open a file of very many tensors, beside the reference implementation of the format.
//
// All are measured by turns, in an order that changes with each round. A load is done when every byte is in the memory of
// the process: where a loader maps the file, every page is touched within the measured time. Reading alone ("raw") reads
// all bytes of the file into buffers that are used again and again, with three numbers of threads and sizes of blocks: that
// of dlx and the fastest of twelve in two trials. The fastest of the three counts. Cold means that the file was dropped
// from the page cache before; the result says how, and what part of it was still there. Warm means that it was then read
// from its begin to its end. The results are written as JSON, with the versions of everything.
package main
