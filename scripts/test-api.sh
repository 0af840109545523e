#!/usr/bin/env bash
# Compares the public API with that of the last tag. An incompatible change needs a heading "### Incompatible"
# below "## Unreleased" in CHANGELOG.md.
#
# usage: test-api.sh APIDIFF
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(go list -m)
tag=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null) || {
  echo "skipped: the API cannot be compared, since this checkout has no tag of a version"
  echo "0 0 1" >>"${DLX_COUNTS:-/dev/null}"
  exit 0
}
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$tag" | tar -x -C "$old"
quietly() { "$@" 2> >(grep -v '^Ignoring internal package' >&2); }
(cd "$old" && quietly "$1" -m -w "$old/api" "$module")
changes=$(quietly "$1" -m -incompatible "$old/api" "$module")
if [ -z "$changes" ]; then
  echo "compatible with $tag"
elif sed -n '/^## Unreleased/,/^## v/p' CHANGELOG.md | grep -q '^### Incompatible'; then
  printf 'incompatible with %s, as CHANGELOG.md says:\n%s\n' "$tag" "$changes"
else
  printf 'incompatible with %s, and CHANGELOG.md has no heading "### Incompatible":\n%s\n' "$tag" "$changes"
  exit 1
fi
