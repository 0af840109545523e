#!/usr/bin/env bash
# Tests CUDA's backend with the cuda.h of every version that requirements.txt and requirements-headers.txt name, each
# behind our own cuda.h (backends/cuda/include):
#
#   - The prototypes in our cuda.h are those of the real one.
#   - The simulated driver builds, and exports the same functions with every version.
#   - The backend builds, and passes the conformance suite on that driver. For this, cgo compiles gorgonia.org/cu and
#     all C of the backend, and the program is linked.
#   - The C of benchmarks/lab/firstsession compiles.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
ours=$PWD/backends/cuda/include

. scripts/counting.sh

# passes runs a command, and counts it as a test with the name in the first argument. It shows the output of a command
# that fails.
passes() {
  if "${@:2}" >"$work/output" 2>&1; then
    pass "$1"
  else
    fail "$1" "$(cat "$work/output")"
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# With __CUDA_API_VERSION_INTERNAL the header declares functions by the names that the driver exports, the old ones
# too. Without it, the header gives names to their newest versions.
has_our_prototypes() {
  local language flag
  for language in c c++; do
    for flag in "" -D__CUDA_API_VERSION_INTERNAL; do
      # shellcheck disable=SC2046,SC2086 # flags
      echo '#include <cuda.h>' | $(go env CC) -x $language -Wall -Wextra -Werror -fsyntax-only $flag -I"$ours" -I"$1" - || return
    done
  done
}

# simulator builds the driver without optimisation, which takes half the time.
simulator() {
  CFLAGS="-Werror -O0 -g0" internal/testing/gpusim/build.sh "$work/$version.so" || return
  nm --dynamic --defined-only --format=posix "$work/$version.so" | cut -d' ' -f1 | sort >"$work/$version.exports"
  [ -s "$work/$version.exports" ] && diff "$work/first.exports" "$work/$version.exports"
}

conforms() {
  DLX_CUDA_LIBRARY=$work/$version.so CGO_ENABLED=1 go test -count=1 -vet=off -short -tags cuda -run '^TestConformance$' ./backends/cuda
}

# experiments compiles the C of benchmarks/lab/firstsession, which has a table of functions of its own.
experiments() {
  local file
  for file in benchmarks/lab/firstsession/*.c; do
    $(go env CC) -Wall -Wextra -Werror -fsyntax-only -I"$ours" -I"$1" "$file" || return
  done
}

# test_version tests with the cuda.h in a folder.
test_version() {
  version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\)[0-9]$/\1/p' "$1/cuda.h")
  version=$((version / 100)).$((version % 100))
  # The order is that of the Makefile, so that Go need not compile the same once more.
  export CGO_CFLAGS="-I$ours -g -O2 -I$1"
  [ -e "$work/first.exports" ] || ln -s "$version.exports" "$work/first.exports"
  passes "CUDA $version: our cuda.h has the prototypes of the real one" has_our_prototypes "$1"
  passes "CUDA $version: the simulated driver builds, and exports what it exports with other versions" simulator
  passes "CUDA $version: the backend builds, and conforms" conforms
  passes "CUDA $version: the experiments of the first session compile" experiments "$1"
}

test_version "$PWD/.venv/cuda-include"
packages=$(sed 's/#.*//' requirements-headers.txt)
[ -n "${packages//[[:space:]]/}" ] || passes "requirements-headers.txt names versions" false
for package in $packages; do
  folder=$(echo "$PWD/.venv/headers/${package#*==}"/nvidia/*/include)
  if [ -f "$folder/cuda.h" ]; then
    test_version "$folder"
  else
    passes "$package is installed (make setup)" false
  fi
done
[ "$failures" = 0 ]
