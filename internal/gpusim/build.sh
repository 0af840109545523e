#!/usr/bin/env bash
# Builds a simulated driver: internal/gpusim/build.sh OUTPUT. An OUTPUT whose name has "hip" in it is HIP's library
# (libamdhip64.so), any other one CUDA's driver. Without make, CGO_CFLAGS says where cuda.h is; CFLAGS adds to the
# flags, CC names the compiler.
set -euo pipefail
output=$(realpath -m "$1")
cd "$(dirname "$0")/src"
sources=(./*.c)
flags=(-Wl,-soname,libcuda.so.1)
case ${output##*/} in
*hip*)
  sources+=(./hip/*.c)
  flags=(-DDLX_GPUSIM_HIP -D__HIP_PLATFORM_AMD__ -I. -Wl,-soname,libamdhip64.so -Wl,--version-script,../hip.map)
  ;;
esac
# Made beside its place, and moved there whole: a program may be running on the old one.
# shellcheck disable=SC2086 # flags
${CC:-cc} -std=gnu11 -shared -fPIC -fvisibility=hidden -pthread -O2 -g -Wall -Wextra ${CGO_CFLAGS:-} ${CFLAGS:-} \
  "${flags[@]}" -o "$output.new" "${sources[@]}" -ldl
mv "$output.new" "$output"
