#!/bin/bash
# Tests dlx on the GPUs of this Mac. It is run.sh of the kit that make mac-kit builds.
#
#   bash run.sh OUT          OUT: an empty or a new folder
#
# Every step runs, even if earlier ones fail. OUT gets summary.json, log.txt (the output of all steps), devices.json and
# bench.json. The exit status is 0 if no step failed. The script works with bash 3.2, which macOS has.
set -uo pipefail
[ $# = 1 ] || { echo "usage: $0 OUT" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
[ -z "$(ls -A "$out")" ] || { echo "$1 is not empty" >&2; exit 2; }
kit=$(cd "$(dirname "$0")" && pwd)

# A process under Rosetta takes an Apple chip for Intel's.
arch=amd64
if [ "$(uname -m)" = arm64 ] || [ "$(sysctl -n hw.optional.arm64 2>/dev/null)" = 1 ]; then
  arch=arm64
fi
bin=$kit/bin/$arch
# macOS refuses programs that a browser has fetched, until this mark is gone.
command -v xattr >/dev/null && xattr -dr com.apple.quarantine "$kit" 2>/dev/null

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export LC_ALL=C
steps="" count=0 failures=0

json() { # the text as a JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "$(printf '%s' "$text" | tr -s '[:cntrl:]' ' ')"
}

note() { # name, status, passed, failed, skipped, seconds, reason
  steps="$steps${steps:+,
}$(printf '    {"name": "%s", "status": "%s", "passed": %d, "failed": %d, "skipped": %d, "seconds": %d, "reason": %s}' \
    "$1" "$2" "$3" "$4" "$5" "$6" "$(json "$7")")"
  count=$((count + 1))
  [ "$2" = passed ] || failures=$((failures + 1))
  printf '%-18s %-8s %4d passed %3d failed %3d skipped %4ds  %s\n' "$@"
}

# limited runs a command, and kills it after some seconds: the exit status is 137 then. macOS has no timeout, and Go
# ignores the signal of an alarm.
limited() {
  perl -e 'my $limit = shift; my $child = fork;
    if (!$child) { exec @ARGV or exit 127 }
    $SIG{ALRM} = sub { kill 9, $child }; alarm $limit;
    waitpid $child, 0; exit($? & 127 ? 128 + ($? & 127) : $? >> 8)' "$@"
}

# step runs a command with a time limit, and counts the tests of a Go test program, or else one test.
step() { # name, seconds, command...
  local name=$1 limit=$2 status=passed reason="" start=$SECONDS passed failed skipped code
  shift 2
  limited "$limit" "$@" >"$work/.step" 2>&1
  code=$?
  { printf '\n== %s: %s\n' "$name" "$*"; cat "$work/.step"; } >>"$out/log.txt"
  passed=$(grep -c '^ *--- PASS' "$work/.step")
  failed=$(grep -c '^ *--- FAIL' "$work/.step")
  skipped=$(grep -c '^ *--- SKIP' "$work/.step")
  if [ "$code" != 0 ]; then
    status=failed reason="ends with $code: $(grep -m 1 '^ *--- FAIL' "$work/.step" || tail -n 1 "$work/.step")"
    [ "$code" != 137 ] || reason="not done after $limit s"
    [ "$failed" != 0 ] || failed=1
  elif [ "$passed$skipped" = 00 ]; then
    passed=1
  elif [ "$passed" = 0 ]; then # nothing was tested
    status=failed reason="all tests were skipped: $(grep -m 1 -A 1 '^ *--- SKIP' "$work/.step" | tail -n 1)"
  fi
  note "$name" "$status" "$passed" "$failed" "$skipped" "$((SECONDS - start))" "$reason"
}

limit=${DLX_KIT_LIMIT:-600} # seconds
tests() { # name, program, variables...
  local name=$1 program=$2
  shift 2
  step "$name" "$limit" env "$@" "$bin/$program" -test.v -test.timeout 590s
}

found=$("$bin/dlx" devices 2>&1)
printf '%s\n' "$found" >"$out/log.txt"
"$bin/dlx" devices --json >"$out/devices.json" 2>>"$out/log.txt"
devices=$(printf '%s\n' "$found" | sed -n 's/^  DEVICE metal:[0-9]* *//p')
if [ -n "$devices" ]; then
  note devices passed 1 0 0 0 ""
else
  note devices failed 0 1 0 0 "$(printf '%s\n' "$found" | grep '^BACKEND metal' || printf '%s\n' "$found" | tail -n 1)"
fi
simulated=false
case $devices in *simulated*) simulated=true ;; esac

# The backend for Metal runs twice: the second time, Metal checks every call, and ends the process at a wrong one.
tests binding binding.test
tests metal metal.test
tests metal-validated metal.test MTL_DEBUG_LAYER=1
step move 60 "$bin/dlx" move "$kit/digits.npy" --via cpu,metal:0,cpu --repeat 100 --verify
if [ $simulated = false ]; then
  step bench 600 "$bin/dlx" bench --device metal:0 --budget 8m --out "$out/bench.json"
fi

{
  printf '{\n  "devices": ['
  printf '%s\n' "$devices" | { comma=""; while IFS= read -r name; do [ -z "$name" ] || { printf '%s%s' "$comma" "$(json "$name")"; comma=", "; }; done; }
  printf '],\n  "system": %s,\n' "$(json "$(sw_vers -productName) $(sw_vers -productVersion) ($(sw_vers -buildVersion))")"
  printf '  "machine": %s,\n' "$(json "$(sysctl -n hw.model) $(sysctl -n machdep.cpu.brand_string) $arch")"
  printf '  "simulated": %s,\n  "date": "%s",\n' "$simulated" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  printf '  "revision": %s,\n  "steps": [\n%s\n  ]\n}\n' "$(json "$("$bin/dlx" version | sed -n 's/^revision *//p')")" "$steps"
} >"$out/summary.json"
echo "$count steps, $failures failed: see $out/summary.json"
[ $failures = 0 ]
