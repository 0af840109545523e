#!/usr/bin/env bash
# Runs a command so that it finds the drivers that need no card and no others: lavapipe for Vulkan,
# PoCL for OpenCL, Mesa's llvmpipe for OpenGL, and for CUDA the simulated driver that make gpusim builds.
# A driver that is not installed is simply not found.
#
#   scripts/software-drivers.sh go run -tags vulkan,opencl,gl,cuda ./cmd/dlx devices
#
# Without this script the loaders of the system choose, and find the cards.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cache=$root/.cache

# So that a command which builds finds the cuda.h that make setup brings.
if [ -z "${CGO_CFLAGS:-}" ] && [ -f "$root/.venv/cuda-include/cuda.h" ]; then
  export CGO_CFLAGS="-g -O2 -I$root/.venv/cuda-include"
fi
# And tests, the compiler and the assembler of PTX.
if [ -z "${DLX_CUDA_TOOLS:-}" ] && [ -e "$root/.venv/cuda-tools" ]; then
  export DLX_CUDA_TOOLS=$root/.venv/cuda-tools
fi

# find_file prints the first of its arguments that is a file, or a path where there is none: an empty
# variable would leave the choice to the loader.
find_file() {
  for path in "$@"; do
    [ -f "$path" ] && { echo "$path"; return; }
  done
  echo /nonexistent
}

# Distributions name the file by machine or not at all. The first variable is read by loaders since
# 1.3.207, the second by older ones.
VK_DRIVER_FILES=$(find_file {/usr/local/share,/usr/share,/etc}/vulkan/icd.d/lvp_icd{."$(uname -m)",}.json)
export VK_DRIVER_FILES VK_ICD_FILENAMES=$VK_DRIVER_FILES

# A folder with one file in it: some loaders take no file here.
export OCL_ICD_VENDORS=$cache/opencl-vendors POCL_CACHE_DIR=$cache/pocl
mkdir -p "$OCL_ICD_VENDORS" "$POCL_CACHE_DIR"
pocl=$(find_file /etc/OpenCL/vendors/*pocl*.icd)
# Left alone where it is right: somebody else's program may be looking.
[ "$(readlink "$OCL_ICD_VENDORS/pocl.icd")" = "$pocl" ] || ln -sfn "$pocl" "$OCL_ICD_VENDORS/pocl.icd"

__EGL_VENDOR_LIBRARY_FILENAMES=$(find_file {/usr/local/share,/usr/share,/etc}/glvnd/egl_vendor.d/50_mesa.json)
export __EGL_VENDOR_LIBRARY_FILENAMES LIBGL_ALWAYS_SOFTWARE=1 GALLIUM_DRIVER=llvmpipe
export MESA_SHADER_CACHE_DIR=$cache/mesa
mkdir -p "$MESA_SHADER_CACHE_DIR"

# The simulator is found by this name only, never by a program that nobody told of it.
DLX_CUDA_LIBRARY=$(find_file "$cache/gpusim/libcuda.so.1")
export DLX_CUDA_LIBRARY

# The drivers keep their sockets there, and complain where nobody logged in to make it.
if [ -z "${XDG_RUNTIME_DIR:-}" ]; then
  export XDG_RUNTIME_DIR=$cache/run
  mkdir -p "$XDG_RUNTIME_DIR"
  chmod 700 "$XDG_RUNTIME_DIR"
fi

exec "$@"
