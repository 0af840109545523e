"""Sends requests by Triton's client for Python. Each line of the input names a way; the answer is the seconds that the
request took, or a text that says what went wrong.

The arguments are the target of gRPC, the host and port of HTTP, the model and the number of float32 elements.
"""

import sys
import time

import numpy
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shared

target, host, model, count = *sys.argv[1:4], int(sys.argv[4])
size = 4 * count
data = numpy.arange(count, dtype=numpy.float32)
clients = {
    "grpc": (tritonclient.grpc, tritonclient.grpc.InferenceServerClient(target)),
    "http": (tritonclient.http, tritonclient.http.InferenceServerClient(host)),
}
regions = {}
for name in ("in", "out"):
    key = f"/dlx-bench-{count}-{name}"
    regions[name] = shared.create_shared_memory_region(key[1:], key, size)
    clients["grpc"][1].register_system_shared_memory(key[1:], key, size)
shared.set_shared_memory_region(regions["in"], [data])


def in_shared_memory(protocol, fill):
    module, client = clients[protocol]
    if fill:
        shared.set_shared_memory_region(regions["in"], [data])
    tensor = module.InferInput("IN", [count], "FP32")
    tensor.set_shared_memory(f"dlx-bench-{count}-in", size)
    output = module.InferRequestedOutput("OUT")
    output.set_shared_memory(f"dlx-bench-{count}-out", size)
    client.infer(model, [tensor], outputs=[output])
    return shared.get_contents_as_numpy(regions["out"], numpy.float32, [count])


def in_message(protocol):
    module, client = clients[protocol]
    tensor = module.InferInput("IN", [count], "FP32")
    tensor.set_data_from_numpy(data)
    output = module.InferRequestedOutput("OUT")
    return client.infer(model, [tensor], outputs=[output]).as_numpy("OUT")


ways = {}
for protocol in clients:
    ways["shared memory, from the program, " + protocol] = lambda p=protocol: in_shared_memory(p, True)
    ways["shared memory, in place, " + protocol] = lambda p=protocol: in_shared_memory(p, False)
    ways["message, " + protocol] = lambda p=protocol: in_message(p)

print("ready", flush=True)
for line in sys.stdin:
    data[0] += 1  # so that an old answer is wrong
    if "in place" in line:
        shared.set_shared_memory_region(regions["in"], [data])
    start = time.perf_counter()
    result = ways[line.strip()]()
    took = time.perf_counter() - start
    print(repr(took) if numpy.array_equal(result, data) else "other elements arrived", flush=True)
    del result

for name in regions:
    clients["grpc"][1].unregister_system_shared_memory(f"dlx-bench-{count}-{name}")
for region in regions.values():
    shared.destroy_shared_memory_region(region)
