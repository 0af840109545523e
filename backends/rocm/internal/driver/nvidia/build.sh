#!/usr/bin/env bash
# Builds HIP's library for cards of NVIDIA, from wrapper.cc: build.sh OUTPUT. It takes CUDA's headers and libcudart from
# the packages that make setup installs, HIP's headers from the system, and the names to export from functions.h.
set -euo pipefail
output=$(realpath -m "$1")
cuda=$(realpath "${DLX_CUDA_TOOLS:-$(dirname "$0")/../../../../../.venv/cuda-tools}")
cd "$(dirname "$0")"
cudart=$(echo "$cuda"/cuda_runtime/lib/libcudart.so.*)
[ -e "$cudart" ] || { echo "libcudart is not in $cuda (make setup)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{ echo '{ global:'; sed -nE 's/^\tX\((hip[A-Z]\w*).*/\1;/p' ../functions.h; echo 'local: *; };'; } >"$work/exports"
# HIP's headers include two of CUDA's from further packages, for functions that are dropped.
echo >"$work/cuda_fp16.h"
echo 'cudaError_t cudaProfilerStart(void), cudaProfilerStop(void);' >"$work/cuda_profiler_api.h"
# Functions of the headers that are not exported are dropped, so that they need no library.
# shellcheck disable=SC2086 # CXX may carry flags
${CXX:-g++} -std=c++17 -shared -fPIC -O2 -Wall -Wextra -Werror -ffunction-sections -D__HIP_PLATFORM_NVIDIA__ \
  -isystem "$work" -isystem "$cuda/cuda_runtime/include" -isystem "$cuda/cuda_nvcc/include" -o "$output" wrapper.cc "$cudart" -ldl \
  -Wl,--gc-sections,-z,defs,--version-script,"$work/exports",-rpath,'$ORIGIN'
