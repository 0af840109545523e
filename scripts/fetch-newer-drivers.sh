#!/usr/bin/env bash
# Fetches newer and further drivers for the CPU into a folder, for DLX_VULKAN_DRIVER and DLX_OPENCL_DRIVER of
# scripts/software-drivers.sh:
#
#   mesa    lavapipe of Mesa 25, from Debian's bookworm-backports: Vulkan 1.4
#   intel   Intel's OpenCL runtime for CPUs, from PyPI (requirements-opencl.txt): OpenCL 3.1 with unified shared memory
#   pocl6   PoCL 6 of Debian 13, with all libraries that it needs: OpenCL 3.0 with unified shared memory and fine-grained SVM of
#           all memory. A program that uses it needs that system's loader: "ldflags" in its folder has go's flag for this.
#
#   scripts/fetch-newer-drivers.sh FOLDER DRIVER...
#
# Each gets a folder of its own. If one cannot be had, its folder has a file "why" with the reason. What is there is not
# fetched again. Nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh
mkdir -p "$1"
drivers=$(cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$PWD

# Exact versions: another one may behave differently.
mesa=mesa-vulkan-drivers=25.0.7-2~bpo12+1

# fetch_mesa unpacks lavapipe into the folder $1, and writes a manifest with its path. It uses the LLVM of Debian 12.
fetch_mesa() {
  local library icd
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "the manifest is looked for on linux/amd64 only"; return 1; }
  debian_archive "$work/apt" bookworm-backports/main || return 1
  debian_unpack "$mesa" "$work/package" || return 1
  library=$(find "$work/package" -name libvulkan_lvp.so) icd=$(find "$work/package" -name 'lvp_icd*.json')
  if ldd "$library" | grep -q 'not found'; then
    echo "the system lacks $(ldd "$library" | awk '/not found/ { print $1 }' | paste -sd' ') (Debian 12 has them: install mesa-vulkan-drivers)"
    return 1
  fi
  cp "$library" "$1/"
  sed "s|\"library_path\": *\"[^\"]*\"|\"library_path\": \"$1/libvulkan_lvp.so\"|" "$icd" >"$1/lvp_icd.json"
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

pocl6=pocl-opencl-icd=6.0-6

# fetch_pocl6 unpacks PoCL and all packages that it needs, the C library among them, into the folder $1.
fetch_pocl6() {
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "the loader is that of linux/amd64"; return 1; }
  debian_archive "$work/apt-pocl6" trixie/main || return 1
  # For a system without any package.
  local none=(-o Dir::State::status=/dev/null -o APT::Install-Recommends=false)
  apt-get -qq "${none[@]}" --download-only -y install "$pocl6" ocl-icd-libopencl1 >"$work/output" 2>&1 || { tail -n 1 "$work/output"; return 1; }
  local package root=$1/root
  for package in "$work"/apt-pocl6/cache/archives/*.deb; do
    # What compilers of C need is not used.
    case ${package##*/} in *-dev_* | linux-libc-dev_*) continue ;; esac
    dpkg-deb -x "$package" "$root" || return 1
  done
  rm -rf "$root"/usr/share/{doc,man,locale,lintian,bug} "$work/apt-pocl6/cache"
  local libraries=$root/usr/lib/x86_64-linux-gnu
  # A search path that holds for libraries of libraries too, which LD_LIBRARY_PATH would be for other programs as well.
  echo "-I $root/usr/lib64/ld-linux-x86-64.so.2 -extldflags \"-Wl,-rpath,$libraries:$root/usr/lib/llvm-18/lib -Wl,--disable-new-dtags\"" >"$1/ldflags"
  mkdir "$1/vendors"
  echo "$libraries/libpocl.so.2" >"$1/vendors/pocl6.icd"
}

for driver in "$@"; do
  folder=$drivers/$driver
  version=$(cat "$root/requirements-opencl.txt" "$0" | sha256sum)
  [ "$(cat "$folder/ready" 2>/dev/null)" != "$version" ] || continue
  rm -rf "$folder"
  mkdir "$folder"
  if "fetch_$driver" "$folder" >"$work/why"; then echo "$version" >"$folder/ready"; else mv "$work/why" "$folder/why"; fi
done
