#!/usr/bin/env bash
# Tests the kit for a Mac: its programs are what a Mac can load, and its run.sh counts and reports what fakes
# of the programs do.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. scripts/counting.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if scripts/mac-kit.sh "$work" >"$work/log" 2>&1; then
  pass "the kit builds"
else
  fail "the kit builds" "$(cat "$work/log")"
fi
if DLX_MAC_KIT=$work/mac-kit CGO_ENABLED=0 go test -count=1 -run '^TestMacKit$' ./backends/metal >"$work/log" 2>&1; then
  pass "a Mac can load its programs"
else
  fail "a Mac can load its programs" "$(cat "$work/log")"
fi

# A kit of fake programs, which are shell scripts, with fakes of the commands of a Mac.
kit=$work/fake
mkdir -p "$kit/bin/arm64" "$kit/commands"
cp "$work/mac-kit/run.sh" "$work/mac-kit/digits.npy" "$kit"
script() { printf '#!/bin/bash\n%s\n' "$2" >"$1" && chmod +x "$1"; }
script "$kit/commands/sw_vers" 'case $1 in -productName) echo macOS ;; -productVersion) echo 14.5 ;; *) echo 23F79 ;; esac'
script "$kit/commands/sysctl" 'case $2 in hw.optional.arm64) echo 1 ;; hw.model) echo "Mac\"14,2" ;; *) echo "Apple M2" ;; esac'
script "$kit/bin/arm64/binding.test" 'echo "--- PASS: TestA (0.00s)"'
script "$kit/bin/arm64/metal.test" 'echo "--- PASS: TestA"; echo "    --- SKIP: TestA/b"; [ -z "${MTL_DEBUG_LAYER:-}" ] || { echo "--- FAIL: TestB"; exit 1; }'
script "$kit/bin/arm64/dlx" 'case "$*" in
  devices) printf "BACKEND metal available\n  DEVICE metal:0  Apple M2\n" ;;
  "devices --json") echo "{}" ;;
  version) echo "revision  abc" ;;
esac'

# summary runs the kit, whose exit status is expected to be the first argument, and compares the summary.
summary() {
  rm -rf "$work/out"
  PATH=$kit/commands:$PATH bash "$kit/run.sh" "$work/out" >"$work/log" 2>&1
  local status=$?
  [ "$status" = "$1" ] && python3 - "$work/out/summary.json" "${@:2}" <<'PYTHON' >>"$work/log" 2>&1
import json, sys
summary = json.load(open(sys.argv[1]))
assert summary["system"] == "macOS 14.5 (23F79)" and summary["machine"] == 'Mac"14,2 Apple M2 arm64', summary
assert summary["simulated"] is False and summary["revision"] == "abc", summary
assert [f'{s["name"]}={s["status"]}:{s["passed"]}/{s["failed"]}/{s["skipped"]}' for s in summary["steps"]] == sys.argv[3:], summary
assert summary["devices"] == json.loads(sys.argv[2]), summary
PYTHON
}
expect() { # name, arguments of summary
  if summary "${@:2}"; then pass "$1"; else fail "$1" "$(cat "$work/log" "$work/out/summary.json")"; fi
}
expect "run.sh reports a test that fails" 1 '["Apple M2"]' devices=passed:1/0/0 binding=passed:1/0/0 \
  metal=passed:1/0/1 metal-validated=failed:1/1/1 move=passed:1/0/0 bench=passed:1/0/0
script "$kit/bin/arm64/metal.test" 'echo "--- PASS: TestA"'
expect "run.sh reports that all is well" 0 '["Apple M2"]' devices=passed:1/0/0 binding=passed:1/0/0 \
  metal=passed:1/0/0 metal-validated=passed:1/0/0 move=passed:1/0/0 bench=passed:1/0/0
script "$kit/bin/arm64/dlx" 'case "$*" in devices) echo "BACKEND metal not available: no devices" ;; version) echo "revision  abc" ;; esac'
script "$kit/bin/arm64/binding.test" 'echo "--- SKIP: TestA"'
expect "run.sh reports a Mac without Metal, and that nothing was tested" 1 '[]' devices=failed:0/1/0 binding=failed:0/0/1 \
  metal=passed:1/0/0 metal-validated=passed:1/0/0 move=passed:1/0/0 bench=passed:1/0/0
script "$kit/bin/arm64/metal.test" 'echo "--- PASS: TestA"; exec sleep 1000'
export DLX_KIT_LIMIT=1
expect "run.sh ends a program that hangs" 1 '[]' devices=failed:0/1/0 binding=failed:0/0/1 \
  metal=failed:1/1/0 metal-validated=failed:1/1/0 move=passed:1/0/0 bench=passed:1/0/0
[ "$failures" = 0 ]
