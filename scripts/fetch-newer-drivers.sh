#!/usr/bin/env bash
# Fetches newer and further drivers for the CPU into a folder, for DLX_VULKAN_DRIVER and DLX_OPENCL_DRIVER of
# scripts/software-drivers.sh:
#
#   mesa    lavapipe and llvmpipe of Mesa 25, from Debian's bookworm-backports: Vulkan 1.4, and OpenGL by EGL
#   intel   Intel's OpenCL runtime for CPUs, from PyPI (requirements-opencl.txt): OpenCL 3.1 with unified shared memory
#   pocl6   PoCL 6 of Debian 13, with all libraries that it needs: OpenCL 3.0 with unified shared memory and fine-grained SVM of
#           all memory
#   hip57   HIP 5.7 of Debian 13: its headers and AMD's library, with all libraries that it needs
#   hip64   HIP 6.4, from Debian's testing release, which keeps a version for some months only
#
# A program that uses one of the last three needs that system's loader: "ldflags" in its folder has go's flag for this.
#
#   scripts/fetch-newer-drivers.sh FOLDER DRIVER...
#
# Each gets a folder of its own. If one cannot be had, its folder has a file "why" with the reason. What is there is not
# fetched again. Nothing is installed. A second process waits for the first.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh
mkdir -p "$1"
drivers=$(cd "$1" && pwd)
shift
# Another process may be fetching them.
exec 9>"$drivers/lock"
flock 9
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$PWD

# Exact versions: another one may behave differently.
mesa=25.0.7-2~bpo12+1

# fetch_mesa unpacks lavapipe, and EGL with llvmpipe, into the folder $1, and writes manifests with their paths. They use the
# LLVM of Debian 12.
fetch_mesa() {
  local library icd
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "the manifest is looked for on linux/amd64 only"; return 1; }
  debian_archive "$work/apt" bookworm-backports/main || return 1
  debian_unpack "mesa-vulkan-drivers=$mesa" "$work/package" || return 1
  library=$(find "$work/package" -name libvulkan_lvp.so) icd=$(find "$work/package" -name 'lvp_icd*.json')
  [ -n "$library" ] && [ -n "$icd" ] || { echo "the package has no lavapipe"; return 1; }
  if ldd "$library" | grep -q 'not found'; then
    echo "the system lacks $(ldd "$library" | awk '/not found/ { print $1 }' | paste -sd' ') (Debian 12 has them: install mesa-vulkan-drivers)"
    return 1
  fi
  # The shell does not end here by itself when a command fails, since the caller asks how this ends.
  cp "$library" "$1/" &&
    sed "s|\"library_path\": *\"[^\"]*\"|\"library_path\": \"$1/libvulkan_lvp.so\"|" "$icd" >"$1/lvp_icd.json" &&
    mkdir "$1/gl" || { echo "the driver cannot be copied"; return 1; }
  local package
  for package in libegl-mesa0 libgbm1 mesa-libgallium; do
    debian_unpack "$package=$mesa" "$work/$package" || return 1
    find "$work/$package" \( -name 'libEGL_mesa.so.0*' -o -name 'libgbm.so.1*' -o -name 'libgallium-*.so' \) -exec cp -P -t "$1/gl" {} + ||
      { echo "the libraries of $package cannot be copied"; return 1; }
  done
  echo "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"library_path\": \"$1/gl/libEGL_mesa.so.0\"}}" >"$1/gl/egl.json"
}

# fetch_intel installs the runtime into a virtual environment in the folder $1. The wheels' own loader is removed, since
# the system's is to be tested, and copies of libraries become links.
fetch_intel() {
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "the package has the runtime for linux/amd64 only"; return 1; }
  "${PYTHON:-python3}" -m venv "$1/venv" >"$work/output" 2>&1 || { tail -n 1 "$work/output"; return 1; }
  "$1/venv/bin/python" -m pip install -q --no-deps --only-binary :all: -r "$root/requirements-opencl.txt" >"$work/output" 2>&1 ||
    { tail -n 1 "$work/output"; return 1; }
  rm -f "$1"/venv/lib/libOpenCL.so*
  local file twin
  for file in "$1"/venv/lib/lib*.so.*.*; do
    twin=${file%%.so.*}.so
    if [ ! -L "$twin" ] && cmp -s "$file" "$twin"; then ln -sfn "${file##*/}" "$twin"; fi
  done
  mkdir "$1/vendors"
  echo "$1/venv/lib/libintelocl.so" >"$1/vendors/intel.icd"
}

# fetch_system unpacks packages of a release of Debian ($2), and all packages that they need, the C library among them, into
# "root" in the folder $1. A program takes these libraries if it is linked with go's flags in "ldflags". $3 is the
# version of LLVM; the other arguments are packages.
fetch_system() {
  local folder=$1 release=$2 llvm=$3 package apt=$work/apt-${1##*/}
  shift 3
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "the loader is that of linux/amd64"; return 1; }
  debian_archive "$apt" "$release/main" || return 1
  # For a system without any package.
  local none=(-o Dir::State::status=/dev/null -o APT::Install-Recommends=false)
  apt-get -qq "${none[@]}" --download-only -y install "$@" >"$work/output" 2>&1 || { tail -n 1 "$work/output"; return 1; }
  for package in "$apt"/cache/archives/*.deb; do
    # What compilers of C need is not used.
    case ${package##*/} in libamdhip64-dev_*) ;; *-dev_* | linux-libc-dev_*) continue ;; esac
    dpkg-deb -x "$package" "$folder/root" || return 1
  done
  rm -rf "$folder"/root/usr/share/{doc,man,locale,lintian,bug} "$apt/cache"
  # A search path that holds for libraries of libraries too, which LD_LIBRARY_PATH would be for other programs as well.
  local libraries=$folder/root/usr/lib/x86_64-linux-gnu
  echo "-I $folder/root/usr/lib64/ld-linux-x86-64.so.2 -extldflags \"-Wl,-rpath,$libraries:$folder/root/usr/lib/llvm-$llvm/lib -Wl,--disable-new-dtags\"" >"$folder/ldflags"
}

fetch_pocl6() {
  fetch_system "$1" trixie 18 pocl-opencl-icd=6.0-6 ocl-icd-libopencl1 || return 1
  mkdir "$1/vendors"
  echo "$1/root/usr/lib/x86_64-linux-gnu/libpocl.so.2" >"$1/vendors/pocl6.icd"
}

fetch_hip57() { fetch_system "$1" trixie 17 libamdhip64-dev=5.7.1-6+deb13u1; }
fetch_hip64() { fetch_system "$1" forky 21 libamdhip64-dev=6.4.3-5; }

for driver in "$@"; do
  folder=$drivers/$driver
  version=$(cat "$root/requirements-opencl.txt" "$root/scripts/fetch-newer-drivers.sh" | sha256sum)
  [ "$(cat "$folder/ready" 2>/dev/null)" != "$version" ] || continue
  rm -rf "$folder"
  mkdir "$folder"
  if "fetch_$driver" "$folder" >"$work/why"; then echo "$version" >"$folder/ready"; else mv "$work/why" "$folder/why"; fi
done
