#!/usr/bin/env bash
# Builds the C shared library of dlx: libdlx.so.0 with the link libdlx.so, its header dlx.h, and dlx.pc for pkg-config.
# The library exports the functions of dlx.h and nothing else.
#
# usage: build-libdlx.sh OUTDIR [TAGS]     TAGS are the backends to add to the CPU's, such as vulkan,opencl; all by default
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: build-libdlx.sh OUTDIR [TAGS]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
tags=${2-$(scripts/tags.sh)}
header=cmd/libdlx/dlx.h

constant() { sed -n "s/^#define $1 \([0-9]*\)$/\1/p" "$header"; }
abi=$(constant DLX_ABI_VERSION)
version=$(git describe --tags --match 'v*' --always 2>/dev/null || echo "")

# In a folder of its own, so that a failed or concurrent build leaves no half of a library in OUTDIR.
work=$(mktemp -d "$out/.build.XXXXXX")
trap 'rm -rf "$work"' EXIT
{
  echo "DLX_$abi {"
  echo "  global:"
  sed -nE 's/^DLX_API .*[ *](dlx_[a-z0-9_]+)\(.*/    \1;/p' "$header"
  echo "  local: *;"
  echo "};"
} >"$work/libdlx.map"

linker="-Wl,--version-script=$work/libdlx.map -Wl,-soname,libdlx.so.$abi -Wl,-z,nodelete -Wl,-z,defs"
# GOFLAGS may name other tags; the last ones count.
CGO_ENABLED=1 go build -trimpath -tags "$tags" -buildmode=c-shared -o "$work/libdlx.so.$abi" \
  -ldflags "-s -w -X main.version=$version -extldflags '$linker'" ./cmd/libdlx

cat >"$work/dlx.pc" <<PC
prefix=\${pcfiledir}
Name: dlx
Description: Moves tensors between devices, APIs and libraries
Version: ${abi}.$(constant DLX_VERSION_MINOR)
Cflags: -I\${prefix}
Libs: -L\${prefix} -ldlx
PC
cp "$header" "$work/dlx.h"
ln -s "libdlx.so.$abi" "$work/libdlx.so"
mv -f "$work/libdlx.so.$abi" "$work/libdlx.so" "$work/dlx.h" "$work/dlx.pc" "$out/"
