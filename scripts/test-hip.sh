#!/usr/bin/env bash
# Tests the backend for ROCm with newer versions of HIP, which scripts/fetch-newer-drivers.sh has put into the folder $1. With a
# second argument it only makes the last of these tests, for that version (hip57):
#
#   - With the headers of 5.7, the simulated library builds, and exports what it exports with those of the system.
#   - With the headers of each version, the backend builds and passes its quick tests on the simulated library.
#   - AMD's own library of each version starts, and says itself that there is no card.
set -uo pipefail
drivers=$(cd "$1" && pwd) only=${2:-}
cd "$(dirname "$0")/.." || exit
. scripts/counting.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=${CGO_CFLAGS:-}

# passes runs a command, and counts it as a test with the name in the first argument. It shows the output of a command
# that fails.
passes() {
  if "${@:2}" >"$work/output" 2>&1; then pass "$1"; else fail "$1" "$(tail -n 40 "$work/output")"; fi
}

exports() { nm --dynamic --defined-only --format=posix "$1" | cut -d' ' -f1 | sort; }

simulator() {
  CFLAGS=-Werror internal/testing/gpusim/build.sh "$work/libamdhip64.so" || return
  diff <(exports .cache/gpusim/libamdhip64.so) <(exports "$work/libamdhip64.so")
}

# on_simulator runs the quick tests on the library $1, or on that of the system's headers.
on_simulator() {
  DLX_HIP_LIBRARY=${1:-$PWD/.cache/gpusim/libamdhip64.so} CGO_ENABLED=1 \
    go test -count=1 -vet=off -short -tags rocm -skip '^TestAMDsLibraryWithoutACard$' ./backends/rocm
}

on_amds_library() {
  DLX_AMD_HIP_LIBRARY=$(echo "$1"/root/usr/lib/x86_64-linux-gnu/libamdhip64.so.[0-9]) CGO_ENABLED=1 \
    go test -count=1 -vet=off -v -tags rocm -ldflags "$(cat "$1/ldflags")" -run '^TestAMDsLibraryWithoutACard$' ./backends/rocm &&
    grep -q '^--- PASS' "$work/output"
}

for version in ${only:-hip57 hip64}; do
  folder=$drivers/$version name="HIP ${version:3:1}.${version:4}"
  [ ! -f "$folder/why" ] || { skip "$name: $(cat "$folder/why")"; continue; }
  [ -f "$folder/ready" ] || { fail "$name is in $drivers"; continue; }
  # Before the system's own.
  export CGO_CFLAGS="-I$folder/root/usr/include $flags"
  simulated=
  if [ "$version" = hip57 ] && [ -z "$only" ]; then
    passes "$name: the simulated library builds, and exports what it exports with the system's headers" simulator
    simulated=$work/libamdhip64.so
  fi
  [ -n "$only" ] || passes "$name: the backend builds with its headers, and passes its quick tests" on_simulator "$simulated"
  if [ -e /dev/kfd ]; then
    skip "$name: this machine may have a card of AMD: there is /dev/kfd"
  else
    passes "$name: AMD's library starts, and finds no card" on_amds_library "$folder"
  fi
done
[ "$failures" = 0 ]
