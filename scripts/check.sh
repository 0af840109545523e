#!/usr/bin/env bash
# The checks of make check: of what differs from HEAD, files that git does not know included. The Makefile sets the
# variables.
#
#   - the linter, of the folders with changed files
#   - the quick tests of all packages, from Go's cache where the change does not reach
#   - the linter and the quick tests of the modules below interop with changed files
set -euo pipefail
cd "$(dirname "$0")/.."
: "${GOLANGCILINT:=golangci-lint}" "${TAGS=$(scripts/tags.sh)}" "${DRIVERS=scripts/software-drivers.sh}" "${GOTESTHOW=}"

changed=$({ git diff --name-only --diff-filter=d HEAD --; git ls-files --others --exclude-standard; } | grep '\.go$' || true)
folders=() modules=()
while read -r folder; do
  [ -n "$folder" ] || continue
  module=$(cut -d/ -f1,2 <<<"$folder")
  if [ -f "$module/go.mod" ]; then
    [[ " ${modules[*]:-} " = *" $module "* ]] || modules+=("$module")
  elif [ "$(go -C "$folder" env GOMOD)" = "$PWD/go.mod" ]; then
    folders+=("./$folder")
  fi
done < <(xargs -r -n1 dirname <<<"$changed" | sort -u)

[ ${#folders[@]} = 0 ] || "$GOLANGCILINT" run --build-tags "$TAGS" "${folders[@]}"
# shellcheck disable=SC2086 # words
$DRIVERS go test -short $GOTESTHOW -tags "$TAGS" ./...
[ ${#modules[@]} = 0 ] || MODULES="${modules[*]}" scripts/test-modules.sh lint quick
