#!/usr/bin/env bash
# Exits with 0 if a Go program with cgo builds and runs under the address sanitizer.
# Otherwise prints the reason, and counts the suite as skipped.
set -uo pipefail
cd "$(dirname "$0")/.."

probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
cat >"$probe/main.go" <<'EOF'
package main

// static int one(void) { return 1; }
import "C"

func main() { println(C.one()) }
EOF

reason=$(CGO_ENABLED=1 go run -asan "$probe/main.go" 2>&1) && exit 0
printf 'skipped: no address sanitizer here: %s\n' "$reason"
echo "0 0 1" >>"${DLX_COUNTS:-/dev/null}"
exit 1
