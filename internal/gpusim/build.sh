#!/usr/bin/env bash
# Builds the simulated CUDA driver: internal/gpusim/build.sh OUTPUT. Without make, CGO_CFLAGS says where cuda.h is;
# CFLAGS adds to the flags, CC names the compiler.
set -euo pipefail
output=$(realpath -m "$1")
cd "$(dirname "$0")/src"
# Made beside its place, and moved there whole: a program may be running on the old one.
# shellcheck disable=SC2086 # flags
${CC:-cc} -std=gnu11 -shared -fPIC -fvisibility=hidden -pthread -O2 -g -Wall -Wextra ${CGO_CFLAGS:-} ${CFLAGS:-} \
  -Wl,-soname,libcuda.so.1 -o "$output.new" ./*.c -ldl
mv "$output.new" "$output"
