#!/usr/bin/env bash
# Runs a command so that it finds only drivers that need no GPU: lavapipe for Vulkan, PoCL for OpenCL, Mesa's
# llvmpipe for OpenGL, wgpu-native on lavapipe for WebGPU, and for CUDA and HIP the simulated drivers that make gpusim
# builds. A driver that is not installed is not found.
#
#   scripts/software-drivers.sh go run -tags vulkan,opencl,gl,cuda ./cmd/dlx devices
#
# With DLX_VULKAN_DRIVER=swiftshader the driver for Vulkan is SwiftShader, which scripts/fetch-swiftshader.sh puts into
# .cache/swiftshader; with DLX_VULKAN_DRIVER=mesa25 it is a newer lavapipe, and with DLX_OPENCL_DRIVER=intel the driver for
# OpenCL is Intel's, with DLX_OPENCL_DRIVER=pocl6 that of PoCL 6; with DLX_GL_DRIVER=mesa25 OpenGL is that of Mesa 25: scripts/fetch-newer-drivers.sh puts them into .cache/drivers. A
# program must be linked with the flags in .cache/drivers/pocl6/ldflags to load that one.
#
# Without this script the loaders of the system choose, and find the GPUs.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cache=$root/.cache

# For commands that build: our cuda.h, and the real one that make setup installs.
if [ -z "${CGO_CFLAGS:-}" ] && [ -f "$root/.venv/cuda-include/cuda.h" ]; then
  export CGO_CFLAGS="-I$root/backends/cuda/include -g -O2 -I$root/.venv/cuda-include"
fi
# For tests: the compiler and the assembler of PTX.
if [ -z "${DLX_CUDA_TOOLS:-}" ] && [ -e "$root/.venv/cuda-tools" ]; then
  export DLX_CUDA_TOOLS=$root/.venv/cuda-tools
fi

# find_file prints the first of its arguments that is a file. If none is, it prints a path that does not exist:
# with an empty variable the loader would choose.
find_file() {
  for path in "$@"; do
    [ -f "$path" ] && { echo "$path"; return; }
  done
  echo /nonexistent
}

# lacks names the backends of a newer driver that could not be had: coretest.NeedDriver skips their tests, and no others.
lacks() { [ -f "$cache/drivers/$1/ready" ] || DLX_DRIVERS_LACK+=,$2; }
export DLX_DRIVERS_LACK=

# The name of the file contains the machine or not, depending on the distribution. Loaders since 1.3.207 read
# the first variable, older ones the second.
case ${DLX_VULKAN_DRIVER:-lavapipe} in
lavapipe) VK_DRIVER_FILES=$(find_file {/usr/local/share,/usr/share,/etc}/vulkan/icd.d/lvp_icd{."$(uname -m)",}.json) ;;
swiftshader) VK_DRIVER_FILES=$(find_file "$cache/swiftshader/vk_swiftshader_icd.json") ;;
mesa25)
  VK_DRIVER_FILES=$(find_file "$cache/drivers/mesa/lvp_icd.json")
  lacks mesa vulkan,webgpu
  ;;
*)
  echo "DLX_VULKAN_DRIVER is $DLX_VULKAN_DRIVER: it can be lavapipe, mesa25 or swiftshader" >&2
  exit 2
  ;;
esac
export VK_DRIVER_FILES VK_ICD_FILENAMES=$VK_DRIVER_FILES

# A folder with one file, since some loaders accept only a folder here.
case ${DLX_OPENCL_DRIVER:-pocl} in
pocl)
  # PoCL 3.1 has no unified shared memory.
  export OCL_ICD_VENDORS=$cache/opencl-vendors POCL_CACHE_DIR=$cache/pocl
  DLX_DRIVERS_LACK+=,oneapi
  mkdir -p "$OCL_ICD_VENDORS" "$POCL_CACHE_DIR"
  pocl=$(find_file /etc/OpenCL/vendors/*pocl*.icd)
  # An existing link that is right is not replaced: another program may be reading it.
  [ "$(readlink "$OCL_ICD_VENDORS/pocl.icd")" = "$pocl" ] || ln -sfn "$pocl" "$OCL_ICD_VENDORS/pocl.icd"
  ;;
pocl6)
  export OCL_ICD_VENDORS=$cache/drivers/pocl6/vendors POCL_CACHE_DIR=$cache/pocl6
  mkdir -p "$POCL_CACHE_DIR"
  lacks pocl6 opencl,oneapi
  ;;
intel)
  export OCL_ICD_VENDORS=$cache/drivers/intel/vendors LD_LIBRARY_PATH=$cache/drivers/intel/venv/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  lacks intel opencl,oneapi
  ;;
*)
  echo "DLX_OPENCL_DRIVER is $DLX_OPENCL_DRIVER: it can be pocl, pocl6 or intel" >&2
  exit 2
  ;;
esac

case ${DLX_GL_DRIVER:-mesa} in
mesa) __EGL_VENDOR_LIBRARY_FILENAMES=$(find_file {/usr/local/share,/usr/share,/etc}/glvnd/egl_vendor.d/50_mesa.json) ;;
mesa25)
  __EGL_VENDOR_LIBRARY_FILENAMES=$(find_file "$cache/drivers/mesa/gl/egl.json")
  export LD_LIBRARY_PATH=$cache/drivers/mesa/gl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  lacks mesa gl
  ;;
*)
  echo "DLX_GL_DRIVER is $DLX_GL_DRIVER: it can be mesa or mesa25" >&2
  exit 2
  ;;
esac
export __EGL_VENDOR_LIBRARY_FILENAMES LIBGL_ALWAYS_SOFTWARE=1 GALLIUM_DRIVER=llvmpipe
export MESA_SHADER_CACHE_DIR=$cache/mesa
mkdir -p "$MESA_SHADER_CACHE_DIR"

# A simulator that is older than its source would be tested in place of the source. One process builds it, the others wait.
# The variables of a make that runs this script are not for that one. Its system packages and .venv stay as they are.
for simulator in .cache/gpusim/libcuda.so.1 .cache/gpusim/libamdhip64.so; do
  [ -f "$root/$simulator" ] && command -v make >/dev/null || continue
  build() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$root" -o system-packages -o .venv/ready "$@" "$simulator"; }
  build -q && continue
  exec 9<"$cache/gpusim"
  flock 9
  build >&2 || { echo "$simulator is older than its source, and cannot be built: see above, and try make gpusim" >&2; exit 2; }
  exec 9<&-
done

# Only these variables make a program find the simulators.
DLX_CUDA_LIBRARY=$(find_file "$cache/gpusim/libcuda.so.1")
DLX_HIP_LIBRARY=$(find_file "$cache/gpusim/libamdhip64.so")
export DLX_CUDA_LIBRARY DLX_HIP_LIBRARY

# WebGPU runs on the driver for Vulkan.
DLX_WEBGPU_LIBRARY=$(find_file "$root/.venv/webgpu/libwgpu_native-release.so")
export DLX_WEBGPU_LIBRARY

# Drivers keep sockets in this folder, and print warnings if no login session has made it.
if [ -z "${XDG_RUNTIME_DIR:-}" ]; then
  export XDG_RUNTIME_DIR=$cache/run
  mkdir -p "$XDG_RUNTIME_DIR"
  chmod 700 "$XDG_RUNTIME_DIR"
fi

exec "$@"
