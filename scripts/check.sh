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

changed=$({ git diff --no-renames --name-only HEAD --; git ls-files --others --exclude-standard; })
folders=() modules=()
while read -r path; do
  folder=$(dirname "$path") module=$(cut -d/ -f1,2 <<<"$path")
  if [ -f "$module/go.mod" ]; then
    [[ " ${modules[*]:-} " = *" $module "* ]] || modules+=("$module")
  elif [[ $path = *.go ]] && [ -n "$(find "$folder" -maxdepth 1 -name '*.go' 2>/dev/null)" ]; then
    if [ "$(go -C "$folder" env GOMOD)" != "$PWD/go.mod" ]; then
      echo "not checked: $path: it is in a module that make check does not know"
    elif [[ " ${folders[*]:-} " != *" ./$folder "* ]]; then
      folders+=("./$folder")
    fi
  fi
done < <(sed '/^$/d' <<<"$changed")

[ ${#folders[@]} = 0 ] || "$GOLANGCILINT" run --build-tags "$TAGS" "${folders[@]}"
# shellcheck disable=SC2086 # words
$DRIVERS go test -short $GOTESTHOW -tags "$TAGS" ./...
if [ ${#modules[@]} != 0 ]; then
  make --no-print-directory .venv-modules/ready # what their tests open
  MODULES="${modules[*]}" scripts/test-modules.sh lint quick
fi
