#!/usr/bin/env bash
# Fetches NVIDIA's libcuda of several drivers from Debian's packages, for scripts/test-drivers.sh. For each package it
# makes a folder in the given one, with the library or, if the package cannot be had, with a file "why" that has the
# reason. What is there is not fetched again. Nothing is installed, and apt's own lists do not change: apt-get gets
# lists of its own, of the archive that the machine's lists name.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
drivers=$(cd "$1" && pwd)

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

# prepare makes what apt-get needs in the folder work. If it cannot, it prints the reason.
prepare() {
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg archive
  for command in apt-get dpkg-deb; do
    command -v $command >/dev/null || { echo "there is no $command"; return 1; }
  done
  # Without apt's lists, which a new machine lacks, only the name of the release tells Debian from other systems.
  archive=$(apt-get indextargets --no-release-info --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' "Created-By: Packages" |
    awk '$1 == "main" && $2 ~ /^(bookworm|trixie|forky|sid|stable|testing|unstable)$/ && !found++ { print $3 }')
  [ -n "$archive" ] || { echo "apt-get knows no archive of Debian"; return 1; }
  mkdir -p "$work"/{lists/partial,cache/archives/partial,sources}
  for release in $(printf '%s\n' "${packages// /$'\n'}" | cut -d/ -f2 | sort -u); do
    echo "deb [signed-by=$keys] $archive $release non-free"
  done >"$work/sources/drivers.list"
  cat >"$work/apt.conf" <<EOF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/sources";
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
APT::Sandbox::User "";
Acquire::Retries "2";
EOF
  export APT_CONFIG=$work/apt.conf
  apt-get update -qq >"$work/output" 2>&1 || { tail -n 1 "$work/output"; return 1; }
}

# fetch gets one package. If it cannot, it prints the reason.
fetch() {
  mkdir "$work/package"
  (cd "$work/package" && apt-get download -qq "$1") >"$work/output" 2>&1 || { tail -n 1 "$work/output"; return 1; }
  dpkg-deb -x "$work"/package/*.deb "$work/package" >"$work/output" 2>&1 || { tail -n 1 "$work/output"; return 1; }
  # Under a name that nobody looks for, until all of the file is there.
  find "$work/package" -type f -name 'libcuda.so.*' | while read -r file; do
    cp "$file" "$drivers/${1//\//-}/new"
    mv "$drivers/${1//\//-}/new" "$drivers/${1//\//-}/${file##*/}"
  done
}

why=""
# Not in a subshell, which would lose APT_CONFIG.
prepare >"$work/why" || why=$(cat "$work/why"; echo "(apt-get failed)")
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
