// Command peers measures dlx beside other programs and libraries on the same machine: memcpy, loops like STREAM's, NumPy,
// PyTorch, clpeak, wgpu, ucx_perftest, nvbandwidth, and what make bench-interop has measured of DLPack.
//
//	peers [-peer NAME,...] [-short] [-out FILE] [-table FILE]     measures, and writes the results and the table
//	peers -render -out FILE -table FILE                           writes the table of results that are there
//	peers -convert-nvbandwidth JSON -out FILE                     makes rows of what nvbandwidth -j has printed
//
// Each peer has an adapter, which finds it, runs it, reads its output strictly, and gives one row for each figure. A peer
// that cannot be had gives rows with a status and a reason. make bench-peers installs the peers and calls the command.
// The working directory is the root of the repository.
package main
