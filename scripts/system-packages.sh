#!/usr/bin/env bash
# Checks the system packages that are needed in addition to Go: a C compiler with its headers, compilers of C++ and
# Rust, a Python that can make a virtual environment, and for each backend in TAGS its headers, its loader and a driver that needs no GPU.
# As root with apt-get it installs the missing ones; otherwise it prints what to install.
# CUDA needs no system package: make installs its headers (requirements.txt) and builds its simulated driver.
#
# With empty TAGS no packages of backends are needed; with DLX_WITHOUT_DRIVERS=1 those to build, but no drivers. Neither
# needs the libraries of the modules below interop. Those of OpenCV are needed with DLX_OPENCV=1 only.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo 3)

# When it is needed | how it is found | its Debian packages | what it is.
needs="
always        | compiles stdlib.h                        | gcc libc6-dev           | a C compiler with the C library's headers
always        | is_command c++                           | g++                     | a C++ compiler, for a test of the header of libdlx
always        | is_command cargo                         | cargo                   | Rust's compiler, for an example of libdlx
always        | is_python                                | python3 python3-venv    | $python 3.10 or newer with venv and ensurepip
vulkan        | compiles vulkan/vulkan.h                 | libvulkan-dev           | Vulkan's headers
vulkan        | is_command c++                           | g++                     | a C++ compiler, for the header of Vulkan's tensors
vulkan driver | is_command glslangValidator              | glslang-tools           | the compiler of the committed shaders
vulkan driver | is_command spirv-val                     | spirv-tools             | the validator of the committed shaders
vulkan driver | is_command clang-15                      | clang-15                | the compiler of the kernels for Metal, for the host
vulkan driver | compiles stdlib.h -l:libvulkan.so.1      | libvulkan1              | Vulkan's loader
vulkan driver | is_file VK_DRIVER_FILES                  | mesa-vulkan-drivers     | lavapipe, Vulkan on the CPU
vulkan driver | is_layer                                 | vulkan-validationlayers | Vulkan's validation layer
opencl        | compiles CL/cl_ext.h                     | opencl-headers          | OpenCL's headers
oneapi        | compiles CL/cl_ext.h                     | opencl-headers          | OpenCL's headers
opencl driver | compiles stdlib.h -l:libOpenCL.so.1      | ocl-icd-libopencl1      | OpenCL's loader
opencl driver | is_file OCL_ICD_VENDORS /pocl.icd        | pocl-opencl-icd         | PoCL, OpenCL on the CPU
gl            | compiles EGL/egl.h                       | libegl-dev              | EGL's headers
gl            | is_module gl                             | pkg-config libgl-dev    | pkg-config, and what it says of OpenGL
gl driver     | compiles stdlib.h -l:libEGL.so.1         | libegl1                 | EGL's loader
gl driver     | is_file __EGL_VENDOR_LIBRARY_FILENAMES   | libegl-mesa0            | Mesa's EGL
gl driver     | is_renderer                              | libgl1-mesa-dri         | llvmpipe, OpenGL on the CPU
cuda          | is_command c++                           | g++                     | a C++ compiler, for our cuda.h
rocm          | compiles hip/hip_runtime_api.h -D__HIP_PLATFORM_AMD__ | libamdhip64-dev | HIP's headers
rocm driver   | is_library libamdhip64.so.5              | libamdhip64-5           | AMD's library of HIP, which starts without a card
rocm driver   | is_command clang-15                      | clang-15                | the compiler of the committed code objects, which PoCL needs, too
rocm driver   | is_command ld.lld-15                     | lld-15                  | its linker
rocm driver   | is_command llvm-objdump-15               | llvm-15                 | its disassembler
rocm driver   | is_command g++                           | g++                     | GCC's C++ compiler, for the kernels of the simulated HIP
cuda driver   | is_emulated aarch64-linux-gnu-gcc        | gcc-aarch64-linux-gnu libc6-dev-arm64-cross | a C compiler for arm64
cuda driver   | is_emulated qemu-aarch64                 | qemu-user               | an emulator of arm64
interop       | is_libpython                             | libpython$version       | the library of $python, for the Python backend of Triton
ucx           | compiles ucp/api/ucp.h                   | libucx-dev              | UCX's headers
ucx driver    | is_command ucx_perftest                 | ucx-utils               | UCX's library and its benchmark
ucx driver    | is_command openssl                       | openssl                 | it makes the certificates of Python's tests
interop       | is_module libavdevice                    | pkg-config libavdevice-dev | FFmpeg's headers and libraries
pages         | is_command chromium                      | chromium fonts-dejavu-core | a browser, for the tests of pages
opencv        | is_module opencv4                        | pkg-config g++ libopencv-dev | OpenCV's headers and libraries
"

# compiles is true if the C compiler can build a program with the header, and with the flags after it.
compiles() {
  # shellcheck disable=SC2046 # go env CC may carry flags
  printf '#include <%s>\nint main(void) { return 0; }\n' "$1" | $(go env CC) -x c - -o /dev/null "${@:2}" 2>/dev/null
}
# is_library is true if the C compiler finds the library. It need not be one to link with.
is_library() { [ -f "$($(go env CC) -print-file-name="$1")" ]; }
is_command() { command -v "$1" >/dev/null; }
# arm64 is emulated on amd64 only.
is_emulated() { [ "$(uname -m)" != x86_64 ] || is_command "$1"; }
is_python() { "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
# Only the Python of the system has its library in a package of its own.
is_libpython() { ! "$python" -c 'import sys; sys.exit(sys.base_prefix != "/usr")' 2>/dev/null || is_library "libpython$version.so.1.0"; }
is_module() { pkg-config --exists "$1" 2>/dev/null; }
# is_file is true if the file exists that a variable of software-drivers.sh names, whichever driver of Vulkan is chosen.
is_file() { env -u DLX_VULKAN_DRIVER -u DLX_OPENCL_DRIVER -u DLX_GL_DRIVER scripts/software-drivers.sh sh -c "test -f \"\$$1\"${2:-}"; }
is_layer() { found {/etc,/usr/share,/usr/local/share}/vulkan/explicit_layer.d -name VkLayer_khronos_validation.json; }
is_renderer() { found /usr/lib* /usr/local/lib* "(" -name swrast_dri.so -o -name "libgallium*.so" ")"; }
found() { [ -n "$(find "$@" -print -quit 2>/dev/null)" ]; }

# is_needed is true if this run needs packages of a kind.
is_needed() {
  case $1 in
  always) return ;;
  interop | pages) [ "$(uname -s)" = Linux ] && [ -n "${TAGS:-}" ] && [ "${DLX_WITHOUT_DRIVERS:-}" != 1 ]; return ;;
  opencv) [ "${DLX_OPENCV:-}" = 1 ]; return ;;
  esac
  [ "$(uname -s)" = Linux ] && [[ ,${TAGS:-}, = *,$1,* ]] && [ "${2:-}${DLX_WITHOUT_DRIVERS:-}" != driver1 ]
}

# missing prints what is needed and not found.
missing() {
  while IFS='|' read -r when check packages name; do
    # shellcheck disable=SC2086 # words
    if [ -n "$when" ] && is_needed $when && ! $check </dev/null; then
      echo "$packages|$name"
    fi
  done <<<"$needs"
}

wanted=$(missing)
if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && is_command apt-get; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  # shellcheck disable=SC2046 # words
  apt-get install -qq -y --no-install-recommends $(cut -d'|' -f1 <<<"$wanted")
  # An installed package may still be unusable, such as a Python that is too old.
  wanted=$(missing)
fi
[ -n "$wanted" ] || exit 0

while IFS='|' read -r packages name; do
  # shellcheck disable=SC2116,SC2086 # echo takes the blanks of the column away
  echo "missing:$name (Debian: $(echo $packages))" >&2
done <<<"$wanted"
echo "Install it, or call make with DLX_WITHOUT_DRIVERS=1 (tests of drivers are skipped) or TAGS= (no backend but the CPU's)." >&2
exit 1
