// Dlx is the command of the tensor exchange runtime. It lists devices, shows how tensors
// move between them, lists and converts the tensors in files, and moves tensors along a
// route of devices.
//
//	dlx devices                                   list backends and devices, and say why others are missing
//	dlx plan [--from DEVICE] [--to DEVICE]        show the mechanism of each move, and why no better one is possible
//	dlx inspect FILE...                           list the tensors of .npy, .npz and .safetensors files
//	dlx convert IN OUT                            write tensors in another file format or element type
//	dlx move FILE --via DEVICE[,DEVICE...]        move tensors along a route of devices and measure it
//	dlx load FILE --to DEVICE                     load the tensors of files onto a device and measure it
//	dlx load ucx://ADDRESS --to DEVICE            load tensors that dlx serve offers on another machine
//	dlx serve FILE... --listen ADDRESS            offer the tensors of files to other machines
//	dlx send FILE --to SOCKET                     pass the tensors of a file to another process, without a copy where possible
//	dlx receive SOCKET --to DEVICE                receive tensors of another process on a device
//	dlx doctor [PID or SOCKET]                    find out which ways of sharing work between two processes, exit code 1 if none does
//	dlx bench                                     measure transfers between devices, APIs, files and languages
//	dlx bench compare OLD NEW                     compare two reports, exit code 1 if a case has become slower
//	dlx bench healthcheck                         compare some cases with limits, exit code 1 if one is below, 4 if none was judged
//	dlx version, dlx --version                    show the source and the backends of this program
//	dlx completion bash|zsh|fish|powershell       print the script for completion in a shell
//
// Results are the only output on standard output. The log (--log-level, --log-format
// console|json) and progress bars are on standard error.
//
// # Exit codes
//
//	0  success
//	1  the work failed. Examples: a bad file, a missing device, an interrupt, no way
//	   between the devices that --from and --to of plan name, or not enough memory for
//	   the size that --bytes of plan asks for
//	2  the command line is wrong; nothing was done. "--via gpu" is wrong because gpu is
//	   not a type of device. "--via cuda:7" is correct: if that device is missing, or its
//	   backend is not in this build, the exit code is 1
//	3  --verify found elements that differ
//	4  bench healthcheck judged nothing: no case that was measured has a limit, such as on a
//	   machine without a card. The machine is then neither good nor bad
//
// If a file is truncated while dlx uses it, the command fails with 1. There is one
// exception: if a driver reads the mapped file, dlx cannot catch the fault. The process then
// ends with a stack trace and exit code 2, as after every crash of a Go program.
//
// # JSON
//
// With --json a command prints one document:
//
//	{"schema": "dlx/1", "command": "inspect", "result": {...}}
//
// A command that fails prints a document with an error:
//
//	{"schema": "dlx/1", "command": "plan", "error": {
//	  "kind": "not supported", "backend": "vulkan", "call": "Open", "code": 0, "message": "..."}}
//
// An error has these fields:
//
//   - kind: "usage", "interrupted", "mismatch", "not judged", the text of a sentinel error of package core,
//     such as "out of memory" or "wrong device", or "failed" for any other error
//   - backend: the part of dlx, the API or the file format that failed; empty if not known
//   - call: the call that failed; empty if not known
//   - code: the error number of the API or the system; 0 if not known
//   - message: the whole text
//
// If the command line is so wrong that the command is not known, the command is "dlx".
//
// A document has both a result and an error if the command found something before it
// failed. Examples are a mismatch (exit code 3), a plan without a way, and a bench of which
// only some cases failed.
//
// The schema changes when a field is renamed, removed or changes its meaning. It does not
// change when a field is added. Field names are in snake_case. Sizes are in bytes, times in
// nanoseconds (their names end in _ns), and strides in elements. If the name of a tensor or a
// file is not UTF-8 or begins with a quotation mark, it is written as a quoted Go string, such
// as "\"\\x9b\"" in JSON. The flag --tensor accepts that form, too.
//
// The results have these fields. A name with brackets is a list of objects; the fields of
// its objects follow it.
//
//   - devices: unknown_tags[] (as in version); remote (UCX, for tensors between machines): available,
//     version, reason; hints[] (usual mistakes of containers and of
//     permissions; omitted if there are none): name, problem, remedy; backends[]: name, built_in, available, version,
//     reason, features[], error (why an available backend could not list its devices);
//     devices[] of each: id, name, driver, uuid, driver_uuid, pci, total_memory, free_memory,
//     alignment, same_hardware[] (the ids of this device under other APIs), compute_units,
//     queues (of the kind that dlx uses), link (the PCI link to the host), numa_nodes,
//     capabilities[], features[]. Unknown values are omitted, or 0. A feature has name,
//     available, reason. The reason of a backend that is not in this build says how to add it.
//   - plan: bytes, copy; missing[] (backends and devices that are not available): name, reason;
//     pairs[]: from, to; ways[] of each pair, one for each kind of memory of the source:
//     memory ("plain", "host_visible", "export"), handle (the handle type of exported
//     memory), and either reason (why nothing could be tried) or route: mechanism ("alias",
//     "map", "peer", "direct", "staged", or "none" if there is no way), bytes_copied; steps[]:
//     what, bytes; refused[] (better mechanisms that are not possible): mechanism, what,
//     reason. The first way is for plain memory, or for the memory that --memory names.
//   - inspect: file, format, bytes, metadata; tensors[]: name, dtype, shape, strides, order
//     ("row-major", "column-major", "strided"), bytes, offset, in_place, compressed, swapped
//     (the file has the other byte order), and reason for a member of an archive that is not a
//     tensor. For an index or a folder, bytes are those of all its files, and each tensor has
//     its file. For several files: files[], each with these fields, or with file and error.
//   - bench --peer: peer, ucx (the version of the library), transports[] (that UCX has chosen); cases[]: device (of this side),
//     what ("latency", "get", "put", "both"), bytes, mechanism, samples, min_ns, median_ns, bytes_per_second (0 for a latency);
//     perftest[] (commands of ucx_perftest; omitted if it is not installed): where ("here" or "there"), command.
//   - plan to another machine: file and tensors (their number; both omitted without a file), from, peer, to (a device of it),
//     bytes, transports[] (that UCX has chosen; omitted, with the reason, if the peer does not answer); steps[]: where ("file",
//     "here", "network", "there"), mechanism ("direct" or "staged", of a file "map" or "staged"; omitted for the network), what,
//     reason (why it is staged; omitted if it is not), bytes_copied.
//   - convert: file, out (empty if nothing could be read), format (of out); tensors[]: name,
//     from_dtype, dtype, shape, order, bytes; left_out[] (members of an archive that are not
//     tensors; omitted if there are none): member, reason.
//   - move: file, copy, bytes_copied, median_ns, verified, out, left_out[] (as in convert), incomplete (where an error
//     or an interrupt ended the work: tensor, trip); tensors[]: tensor, dtype, shape, bytes,
//     trips, load, bytes_copied, min_ns, median_ns, max_ns, gb_per_s, verified, mismatch (trip,
//     hop, index, want, got); hops[] of each tensor: from ("file" or a device), to, mechanism
//     (as in plan), bytes_copied, cold, wait ("none", "stream_wait", "semaphore_wait", "host_wait"),
//     refused[] (as in plan), min_ns, median_ns, max_ns, gb_per_s, verified.
//     The load is the copy of a tensor from the file into memory, once before all trips:
//     reason, bytes_copied, time_ns. Only a tensor that is not in place has one.
//     Cold is the number of trips on which the hop opened the memory for the device; on the
//     other trips it was already open.
//     Bytes and times are those of one trip. Those of a tensor, and of all tensors, include
//     the load. Verified is null without --verify. Gb_per_s is omitted if nothing was copied.
//     The command was called handoff, and that name still works: the document of dlx handoff has
//     the command "handoff" and the same fields.
//   - load: file, cold (how the page cache was emptied before each run; omitted without
//     --cold), verified (null without --verify), median_ns, bytes_per_second (of the median
//     run); runs[]: time_ns, bytes_per_second, cached (the part of the wanted bytes that was
//     in the page cache, -1 if not known); report (of the last run): device, tensors, bytes (of
//     the elements in the files), bytes_read, bytes_by_device (of them, read by the device itself;
//     omitted if there are none), tensors_swapped (from the other byte order; omitted if 0), bytes_loaded, allocations, threads, buffers
//     (their kind), bytes_staging (their size), time_ns, bytes_per_second; files[] of it:
//     path, bytes, bytes_wanted (of them, those of the loaded elements), cached, read ("map", "direct", "cufile", "buffered", or "source" for a process at ucx://ADDRESS), reason, tensors; refused[] of it:
//     what, reason. With --checksum: checksums[]: tensor, checksum.
//   - serve: address (at which it listened), device, tensors[]: tensor, dtype, shape, bytes; bytes (of all of
//     them), connections, served and refused (requests), bytes_sent, duration_ns.
//   - send, receive: socket, bytes_copied (by this process), file (of send); peer: pid, uid, gid;
//     devices[] of it (that it has opened for the tensors): id, uuid, driver_uuid, pci, exports[] and
//     imports[] (handle types of memory), semaphore_exports[], semaphore_imports[], ipc_events;
//     tensors[]: tensor, dtype, shape, checksum (of its elements, by dlx send; omitted if there is
//     none), verified (null without --verify, and in the result of send); report of each: from, to,
//     mechanism, steps[] (what, bytes), refused[] (ways to share the memory that were not possible:
//     mechanism, what, reason), bytes_copied, handle (by which the memory is shared), opened (the
//     memory was passed or opened for this tensor), wait, label (that went with the tensor), duration_ns.
//   - doctor: mode ("child": the other process is one that dlx has started, "doctor": it is dlx doctor --listen,
//     "share": it uses package share, "process": it was named by its number), timeout_ns (of an answer), host_shared (a way to share
//     memory of the host without a copy works or is possible); this and other (the processes; a field that is not known is
//     empty or -1): pid (0 if it has no number in the PID namespace of this process), uid, gid, namespaces (by kind:
//     pid, ipc, mnt, user, net), capabilities (the permitted ones, a bit for each) and effective, seccomp (2 is a
//     filter), dumpable, label (of a security module), yama (kernel.yama.ptrace_scope), files (the limit of open
//     descriptors), shm (the number of the file system at /dev/shm), shm_bytes, shm_free, state; devices[] (of the other
//     process), as in send; findings[]: way, from and to (the devices; omitted for ways without them), verdict ("works",
//     "possible", "fails", "not tried"), host (it passes memory of the host), zero_copy, why, probably (the reason does not
//     follow from facts alone), remedy, call and code (that failed).
//   - bench: program (the fields of version), date, samples, max_time_ns, numpy (its version),
//     interrupted (not all cases were measured), shortened (how --budget ended the run); host: platform, system, kernel, virtual (the
//     hypervisor), container, cpu, cpus, affinity, numa_nodes, caches[] (level, kind, bytes),
//     memory, governor, memory_peak (gb_per_s, source), load (averages of 1, 5 and 15 minutes),
//     before and after (time, mhz of each CPU, steal), versions (by name); devices[] of the
//     host: the fields of devices, missing (why it is not there), simulated, software (its
//     driver computes on the CPU), memory_peak, bus_peak, before and after (compute_mhz,
//     memory_mhz, celsius, watts, link, throttled, reason); baseline, with --compare or --against: file,
//     date, by_turns (file is a program, measured by turns with this one), tolerance, differs[], new[] and gone[] (cases that only the newer or only the older
//     report has), common: cases (that were compared), old_to_new (their median), baselines (that were
//     compared, too), baselines_old_to_new, reference_old_to_new (of the reference work), slower (most cases
//     are slower beyond the tolerance, and other code is not); cases[]: name, description, family (the name without devices
//     and sizes), kind ("bandwidth", "latency", "overhead"), from[], to[], memory (of the host),
//     size (of a buffer), streams, status ("ok", "unsupported", "skipped", "error"), reason,
//     simulated, bytes, way (the mechanism of a move), refused[] (as in plan), clock ("host",
//     "device"), clock_error_ns (of one operation), verified, mismatch (offset, wrong, of,
//     want, got, bits, text), peak (as memory_peak), impossible (why the result cannot be),
//     notes[], allocs_per_op, iterations (of a sample), times_ns (of one operation, by sample),
//     fastest_ns[] (of the fastest part of each sample), reference_ns[] (of the same work
//     beside it), blocks[] (numbers of consecutive samples, each from a process of its own),
//     min_ns, p05_ns, p25_ns, median_ns, p75_ns, p95_ns, p99_ns, max_ns (percentiles), low_ns
//     and high_ns (the confidence interval of the median), confidence, cv (the coefficient of
//     variation), spread (the distance between the quartiles divided by the median), gb_per_s;
//     baselines[] with the same figures, and baseline (its name) and not_measured (why not);
//     against (the fastest baseline), speed (the baseline's time divided by the case's),
//     extra_ns (the case's time minus the baseline's); verdict: target, value, met, miss_by,
//     text; change, with --compare or --against: old_median_ns, old_ns and new_ns (the times
//     that are compared; omitted with --against), old_to_new (above 1 if the case is faster now), rounds[]
//     (with --against: that of each round), low and high (its interval at 99%, with --against at 99.9%),
//     p (the probability of such a difference by chance), significant, slower (a significant loss beyond
//     the tolerance), by_machine (other code has most of the change, too). With --list: list[]: name, description, number (of nvbandwidth), target,
//     extra (measured only if it is asked for).
//   - compare (dlx bench compare): baseline, as in bench; cases[]: name, simulated, median_ns (of
//     the newer report), change, as in bench.
//   - healthcheck (dlx bench healthcheck): date, passed, failed and not_judged (how many), findings[]: case, verdict ("PASS", "FAIL",
//     "unknown"), measured and limit (both in unit, "GB/s" or "ns"), source (of the limit),
//     reasons[] (why the result is bad or there is none).
//   - version: version, revision, time, modified, go, platform, tags[], unknown_tags[] (the tags
//     that neither dlx nor Go defines), built[] (the backends in this program), not_built[] (the
//     backends that build tags add), cgo, dlpack. dlx --version prints the same fields, with
//     the command "dlx".
//
// # Files
//
// Each subcommand has a file with its flags, its result and the text output. The work of
// move is in internal/move, and that of bench in package benchmarks.
package main
