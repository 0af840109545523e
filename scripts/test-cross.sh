#!/usr/bin/env bash
# Builds every package without cgo for each os/arch, and vets it with its tests. The first argument is the tags for
# vet: without cgo they must change nothing, and break nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
tags=$1
shift

failures=0
for target in "$@"; do
  export GOOS=${target%/*} GOARCH=${target#*/}
  if go build ./... && go vet -tags "$tags" ./...; then
    echo "$target: ok"
    echo "1 0 0" >>"${DLX_COUNTS:-/dev/null}"
  else
    echo "$target: FAILED"
    echo "0 1 0" >>"${DLX_COUNTS:-/dev/null}"
    failures=$((failures + 1))
  fi
done
[ "$failures" = 0 ]
