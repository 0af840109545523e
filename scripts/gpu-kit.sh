#!/usr/bin/env bash
# Builds the kit that tests and measures dlx on a linux/amd64 machine with an NVIDIA GPU, without Go and without a
# compiler: programs, test programs, run.sh and first-session.sh. It is in dist/gpu-kit, and packed in
# dist/gpu-kit.tar.gz. make calls this script, and sets the compiler flags that find cuda.h.
set -euo pipefail
cd "$(dirname "$0")/.."
kit=dist/gpu-kit
export GOOS=linux GOARCH=amd64 CGO_ENABLED=1
flags=(-trimpath -tags "$(scripts/tags.sh)" -ldflags "-s -w")

rm -rf "$kit" "$kit.tar.gz"
mkdir -p "$kit/bin"
go build "${flags[@]}" -buildvcs=true -o "$kit/bin/" ./cmd/dlx ./examples/cudavulkan ./examples/renderer ./benchmarks/lab/firstsession ./benchmarks/lab/peers
go build "${flags[@]}" -buildmode c-shared -o "$kit/bin/libdlx.so" ./backends/cuda/internal/cshared
rm "$kit/bin/libdlx.h"
for package in backends/cuda backends/rocm backends/vulkan backends/opencl backends/gl interop/gl exchange remote; do
  go test -c "${flags[@]}" -o "$kit/bin/${package//\//-}.test" "./$package"
done
for script in run first-session drivers; do
  cp "scripts/gpu-kit-$script.sh" "$kit/$script.sh"
done

# The loaders of Vulkan, OpenCL and EGL, which machines without a screen often lack. run.sh uses those that are missing.
mkdir "$kit/lib"
for library in libvulkan.so.1 libOpenCL.so.1 libEGL.so.1 libGLdispatch.so.0; do
  path=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p | awk -v name="$library" '$1 == name && /x86-64/ && !found++ { print $NF }')
  [ -n "$path" ] || { echo "$library is not installed" >&2; exit 1; }
  cp -L "$path" "$kit/lib/$library"
done
# HIP over CUDA, and libcudart, which the licence beside it lets programs carry (CUDA EULA, attachment A).
mkdir "$kit/hip"
backends/rocm/internal/driver/nvidia/build.sh "$kit/hip/libdlxhip-nvidia.so"
cudart=$(realpath .venv/cuda-tools/cuda_runtime/lib/libcudart.so.12)
cp "$cudart" "$kit/hip/"
cp "$(dirname "$cudart")"/../../../nvidia_cuda_runtime_cu12-*.dist-info/License.txt "$kit/hip/libcudart-license.txt"
cp testdata/digits.npy backends/cuda/array_libraries_check.py backends/cuda/first_session_torch.py "$kit"

tar -C dist -czf "$kit.tar.gz" gpu-kit
echo "$kit: $(du -sm "$kit" | cut -f1) MiB, packed $(du -sm "$kit.tar.gz" | cut -f1) MiB; it needs" \
  "$(readelf --version-info "$kit"/bin/* "$kit"/hip/*.so* | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1) or newer"
