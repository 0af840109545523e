// Dlx is the command of the tensor exchange runtime: it shows which devices there
// are and which ways lead from one to another, looks into tensor files, and carries
// tensors along such ways.
//
//	dlx devices                                   the backends and devices, and why others are missing
//	dlx plan [--from DEVICE] [--to DEVICE]        by which mechanism tensors go, and why not by a better one
//	dlx inspect FILE...                           the tensors of .npy, .npz and .safetensors files
//	dlx convert IN OUT                            write tensors in another format or element type
//	dlx handoff FILE --via DEVICE[,DEVICE...]     carry tensors along a route and measure it
//	dlx bench                                     measure dlx beside memcpy, NumPy and an empty C call
//	dlx version, dlx --version                    what the program was built from, and which backends it has
//	dlx completion bash|zsh|fish|powershell       the script that makes the shell complete
//
// Results go to standard output and nothing else does; the log (--log-level,
// --log-format console|json) and progress bars go to standard error.
//
// # Exit codes
//
//	0  success
//	1  the work failed: a bad file, a device that is missing, an interrupt; or plan
//	   found no way between devices that both --from and --to name, or no room for
//	   a tensor of the size that --bytes asks for
//	2  the command line is wrong; nothing was done. "--via gpu", which names no
//	   kind of device, is such a mistake; "--via cuda:7", a device that is not
//	   there or whose backend was not built in, is a failure
//	3  --verify found elements that differ
//
// A file that is truncated while dlx uses it is a failure. Where it is a driver that reads
// the file, which was mapped for it, dlx cannot catch that: the process then ends with a
// trace of the fault and with 2, the code of Go's runtime for every crash.
//
// # JSON
//
// With --json a command prints one document:
//
//	{"schema": "dlx/1", "command": "inspect", "result": {...}}
//
// A command that fails prints one, too, with its error; the exit code tells the same:
//
//	{"schema": "dlx/1", "command": "plan", "error": {
//	  "kind": "not supported", "backend": "vulkan", "call": "Open", "code": 0, "message": "..."}}
//
// An error has kind ("usage", "interrupted", "mismatch", one of the reasons in package
// core, such as "out of memory" or "wrong device", or "failed"), backend (the part of
// dlx, the API or the file format that refused), call (what failed there), code (the API's
// or the system's number), message (the whole text). Backend and call are empty, and code
// is 0, where they are not known. A command whose line is wrong has the name "dlx" if it
// is not known which command was meant.
//
// The schema changes when a field is renamed, removed or means something else;
// fields may be added under the same one. Names are in snake_case, sizes in bytes,
// times in nanoseconds (the names end in _ns), strides in elements. A document
// has both a result and an error where something was found out before the failure: a
// mismatch (exit code 3), plan where there is no way, bench if only some cases failed. A name of a tensor or a file that is not
// UTF-8, or begins with a quotation mark, is a quoted Go string ("\"\\x9b\"" in JSON),
// so that no two names become one; --tensor takes that form.
//
//   - devices: unknown_tags[] (as in version); backends[]: name, built_in, available, version, reason, features[],
//     error (why an available backend could not list its devices); devices[]: id, name, driver, uuid, driver_uuid, pci, total_memory, alignment,
//     same_hardware[] (the ids under which other APIs have this device), compute_units, queues (of the kind that dlx uses), free_memory, link (of PCI, to the
//     host) and numa_nodes where they are known,
//     capabilities[], features[]. A feature has name, available, reason. Of a backend
//     that is not built in, the reason says what brings it.
//   - plan: bytes, copy; missing[], what is not there: name, reason; pairs[]: from, to;
//     ways[] of each, the first for plain memory or for that of --memory: memory
//     ("plain", "host_visible", "export"), handle (of exported memory), and reason
//     where nothing could be tried, or route: mechanism ("alias", "map", "peer",
//     "direct", "staged", and "none" where every way was refused), bytes_copied,
//     steps[]: what, bytes; refused[]: mechanism, what, reason.
//   - inspect: file, format, bytes, metadata; tensors[]: name, dtype, shape, strides,
//     order ("row-major", "column-major", "strided"), bytes, offset, in_place,
//     compressed, and for a member that is no tensor its reason. For several files:
//     files[], each with these fields, or with its file and the error.
//   - convert: file, out, format (of out); tensors[]: name, from_dtype, dtype, shape, order, bytes.
//   - handoff: file, copy, bytes_copied, median_ns, verified, out, incomplete (where an
//     error or an interrupt ended the work: tensor, trip); tensors[]: tensor,
//     dtype, shape, bytes, trips, load (the copy from the file into memory, once before
//     the trips, of a tensor that is not in place: reason, bytes_copied, time_ns),
//     bytes_copied, min_ns, median_ns, max_ns, gb_per_s,
//     verified, mismatch (trip, hop, index, want, got); hops[] of each: from ("file"
//     or a device), to, mechanism (as in plan), bytes_copied, cold (trips on which the
//     memory was opened for the device; on later ones it was open), wait ("none",
//     "stream_wait", "host_wait"), refused[] (as in plan), min_ns, median_ns, max_ns,
//     gb_per_s, verified. Bytes and times are those of one trip; the bytes of a tensor and
//     of all are with those of the load. Verified is null
//     without --verify; gb_per_s is left out where nothing was copied.
//   - bench: program (the fields of version), date; host: platform, cpu, cpus, load
//     (averages of 1, 5 and 15 minutes); samples, max_time_ns, numpy (its version);
//     cases[]: name, description, status ("ok", "unsupported", "skipped", "error"),
//     reason, bytes, way (the mechanism of a move), allocs_per_op, iterations (of a sample), times_ns (of one
//     operation, by sample), min_ns, median_ns, spread (between the quartiles, as a
//     part of the median), gb_per_s; baselines[] with the same figures: baseline (its
//     name), not_measured (why not); against (the fastest baseline), speed (times as
//     fast as that), extra_ns (more than that); verdict: target, value, met, miss_by,
//     text; change, with --compare: old_median_ns, old_to_new (above 1 is faster now).
//     With --list: list[]: name, description, target.
//   - version: version, revision, time, modified, go, platform, tags[], unknown_tags[] (of
//     them, those that neither dlx nor Go knows), built[] and not_built[] (the backends that
//     are in the program, and those that build tags add), cgo, dlpack. dlx --version prints
//     the same, as the command "dlx".
//
// # Files
//
// Each subcommand has a file with its flags, its result and how that prints. The
// work of handoff is in internal/handoff, that of bench in package benchmarks.
package main
