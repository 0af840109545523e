#!/usr/bin/env bash
# Prints the packages whose tests are other programs with the tags in the argument than without: a file of the package,
# or of one that it imports, is built with them only, or without them only.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=1 # without cgo the tags change nothing

# tests prints a line for the tests of each package: all files that they are made of. Go lists what a package imports
# before it.
tests() {
  go list -tags "$1" -test -deps -f '{{if not .Standard}}{{.ImportPath}}|{{.GoFiles}}{{.CgoFiles}}{{.CFiles}}{{.SFiles}}{{.EmbedFiles}}|{{join .Deps "|"}}{{end}}' ./... |
    awk -F'|' '
      $1 ~ /\.test$/ {
        line = $1
        for (i = 3; i <= NF; i++) if ($i in files) line = line " " $i "=" files[$i]
        print line
      }
      { files[$1] = $2 }' | sort
}
comm -13 <(tests "") <(tests "$1") | cut -d' ' -f1 | sed 's/\.test$//'
