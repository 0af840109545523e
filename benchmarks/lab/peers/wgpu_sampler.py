"""Measures wgpu-native over Vulkan for the Go program that started it, one JSON line in, one out."""

import json
import sys
import time


def answer(**fields):
    print(json.dumps(fields), flush=True)


try:
    import wgpu
    import wgpu.backends.wgpu_native as native

    adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] == "Vulkan"]
    if not adapters:
        raise RuntimeError("wgpu finds no device of Vulkan")
    adapter = adapters[0]
    device = adapter.request_device_sync(required_limits={"max-buffer-size": 1 << 28})
except Exception as e:  # the Go side decides what it means
    answer(error=f"{type(e).__name__}: {e}")
    sys.exit()

queue = device.queue


def upload(size):
    """A write_buffer, and the wait until it is done. (In wgpu-py 0.32.0 on_submitted_work_done_sync fails.)"""
    buffer = device.create_buffer(size=size, usage=wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC)
    data = bytearray(i % 251 for i in range(4096)) * (size // 4096)

    def sample(n):
        start = time.perf_counter_ns()
        for _ in range(n):
            queue.write_buffer(buffer, 0, data)
            queue.submit([])
            device._poll_wait()
        return time.perf_counter_ns() - start

    sample(1)
    if bytes(queue.read_buffer(buffer)) != bytes(data):
        raise RuntimeError("the buffer holds other bytes than were written")
    return sample


def download(size):
    """A read_buffer, which waits and gives the bytes in memory of its own."""
    buffer = device.create_buffer(size=size, usage=wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC)
    queue.write_buffer(buffer, 0, bytearray(i % 251 for i in range(4096)) * (size // 4096))

    def sample(n):
        start = time.perf_counter_ns()
        for _ in range(n):
            queue.read_buffer(buffer)
        return time.perf_counter_ns() - start

    return sample


PREPARE = {"upload": upload, "download": download}
info = adapter.info
major = ".".join(map(str, native.lib_version_info))
answer(version=f"wgpu-py {wgpu.__version__}, wgpu-native {major}", device=f"{info['device']}, {info['description']}")
samples = {}
for line in sys.stdin:
    request = json.loads(line)
    try:
        if "size" in request:
            samples[request["case"]] = None
            samples[request["case"]] = PREPARE[request["case"]](request["size"])
            answer()
        else:
            answer(ns=samples[request["case"]](request["n"]))
    except Exception as e:  # the Go side decides what it means
        answer(error=f"{type(e).__name__}: {e}")
