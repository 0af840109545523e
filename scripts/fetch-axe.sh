#!/usr/bin/env bash
# Fetches axe-core, which checks pages for accessibility, into a folder: one script out of an npm package of an exact
# version, whose checksum is verified. If it cannot be had, the folder has a file "why" with the reason. What is there is
# not fetched again.
set -euo pipefail

package=axe-core@4.14.1
integrity=sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==

mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ "$(cat "$folder/ready" 2>/dev/null)" != "$package" ] || exit 0
rm -rf "${folder:?}"/*

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# fetch gets the file. If it cannot, it prints the reason.
fetch() {
  command -v npm >/dev/null || { echo "there is no npm (Debian: npm)"; return 1; }
  npm pack --loglevel error --ignore-scripts "$package" >output 2>&1 || { echo "npm pack $package: $(tail -n 1 output)"; return 1; }
  [ "sha512-$(openssl dgst -sha512 -binary ./*.tgz | base64 -w 0)" = "$integrity" ] || { echo "$package has another checksum"; return 1; }
  tar xzf ./*.tgz --no-same-owner package/axe.min.js || { echo "$package cannot be unpacked"; return 1; }
  mv package/axe.min.js "$folder" || { echo "$package cannot be copied"; return 1; }
  echo "$package" >"$folder/ready"
}

fetch >why || mv why "$folder"
