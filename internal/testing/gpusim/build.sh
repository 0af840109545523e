#!/usr/bin/env bash
# Builds a simulated driver: internal/testing/gpusim/build.sh OUTPUT. An OUTPUT whose name has "hip" in it is HIP's
# library (libamdhip64.so), any other one CUDA's driver. Without make, CGO_CFLAGS says where cuda.h is; CFLAGS adds to the
# flags, CC and CXX name the compilers.
set -euo pipefail
output=$(realpath -m "$1")
cd "$(dirname "$0")/src"
# shellcheck disable=SC2206 # flags
warnings=(-fPIC -fvisibility=hidden -O2 -g -Wall -Wextra ${CGO_CFLAGS:-} ${CFLAGS:-})
sources=(./*.c)
flags=(-Wl,-soname,libcuda.so.1)
mkdir -p "$(dirname "$output")"
new=$(mktemp -d "$output.XXXXXX") # beside its place, and of this build alone
trap 'rm -rf "$new"' EXIT

# kernels compiles the kernels of backends/internal/gpucopy and gpuconvert for the host, as hip/hiprtc.c compiles a text, to an
# object.
kernels() {
  local text names
  local internal=../../../../backends/internal
  text=$(cat hip/prelude.h "$internal/gpucopy/gather.cu" "$internal"/gpuconvert/convert{_hip.h,.cu})
  text=$(${CXX:-g++} -x c++ -std=c++17 -w "-I$internal/gpuconvert" -E - <<<"$text")
  names=$(grep -oE '__attribute__\(\(global\)\) *void +\w+' <<<"$text" | awk '{ print $NF }')
  {
    printf '%s\n' "$text"
    cat hip/tail.h
    echo 'static const dlx_hip_kernel dlx_hip_all[] = {'
    for name in $names; do echo "DLX_HIP_KERNEL($name),"; done
    echo '{nullptr, nullptr, nullptr}};'
    echo 'extern "C" { extern const dlx_hip_table dlx_hip_gather;'
    echo 'const dlx_hip_table dlx_hip_gather = {"", dlx_hip_all, &__ehdr_start, &_end, &dlx_hip_now}; }'
  } | ${CXX:-g++} -x c++ -std=c++17 -w -O1 -g -fPIC -fno-exceptions -fno-rtti -fvisibility=hidden \
    -fsanitize=kernel-address --param asan-instrumentation-with-call-threshold=0 --param asan-globals=0 \
    --param asan-stack=0 -c -o "$1" -
}

case ${output##*/} in
*hip*)
  kernels "$new/kernels.o"
  sources+=(./hip/*.c "$new/kernels.o")
  flags=(-DDLX_GPUSIM_HIP -D__HIP_PLATFORM_AMD__ -Wl,-soname,libamdhip64.so -Wl,--version-script,../hip.map)
  ;;
esac
# Moved there whole: a program may be running on the old one, and another build may be at work.
# shellcheck disable=SC2086 # CC may carry flags
${CC:-cc} -std=gnu11 -shared -pthread "${warnings[@]}" "${flags[@]}" -o "$new/driver" "${sources[@]}" -ldl
mv "$new/driver" "$output"
