#!/usr/bin/env bash
# Fetches NVIDIA's libcuda of several drivers from Debian's packages, for scripts/test-drivers.sh. For each package it
# makes a folder in the given one, with the library or, if the package cannot be had, with a file "why" that has the
# reason. What is there is not fetched again. Nothing is installed. A second process waits for the first.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh
mkdir -p "$1"
drivers=$(cd "$1" && pwd)
# Another process may be fetching them.
exec 9>"$drivers/lock"
flock 9

# A package, and a release of Debian that has it. A stable release keeps one branch of a driver.
packages="libnvidia-tesla-470-cuda1/bookworm libcuda1/bookworm libcuda1/trixie"

is_there() { [ -n "$(find "$drivers/${1//\//-}" -name 'libcuda.so.*' -print -quit 2>/dev/null)" ]; }

wanted=()
for package in $packages; do
  is_there "$package" || wanted+=("$package")
done
[ ${#wanted[@]} != 0 ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch gets one package. If it cannot, it prints the reason.
fetch() {
  debian_unpack "$1" "$work/package" || return 1
  # Under a name that nobody looks for, until all of the file is there.
  find "$work/package" -type f -name 'libcuda.so.*' | while read -r file; do
    cp "$file" "$drivers/${1//\//-}/new" && mv "$drivers/${1//\//-}/new" "$drivers/${1//\//-}/${file##*/}" || { echo "the library cannot be copied"; return 1; }
  done
}

why=""
mapfile -t releases < <(printf '%s\n' "${packages// /$'\n'}" | cut -d/ -f2 | sort -u)
debian_archive "$work" "${releases[@]/%//non-free}" >"$work/why" || why=$(cat "$work/why"; echo "(apt-get failed)")
for package in "${wanted[@]}"; do
  folder=$drivers/${package//\//-}
  rm -rf "$folder" "$work/package"
  mkdir "$folder"
  if [ -n "$why" ]; then
    echo "$why" >"$folder/why"
  elif fetch "$package" >"$folder/why"; then
    if is_there "$package"; then rm "$folder/why"; else echo "the package has no libcuda" >"$folder/why"; fi
  fi
done
