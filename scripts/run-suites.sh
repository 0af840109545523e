#!/usr/bin/env bash
# Installs what the suites need and runs the suites that are named, which are targets of the Makefile. All of them
# run, even if one fails. The last line is: N passed, N failed, N skipped.
#
# Each suite's line ends with its time and the processor time of all its processes, both in seconds.
#
# The summary shows with each suite that failed the lines of its output that name failures, at most 20.
#
# A suite may append lines "passed failed skipped" to the file DLX_COUNTS. A suite without such lines counts as one
# test, which has passed if the suite exits with 0.
set -uo pipefail
cd "$(dirname "$0")/.."

reports=.test
rm -rf "$reports"
mkdir "$reports"

say() { printf '\n== %s\n' "$1"; }

# processor_time sets used to the seconds that the processes which have ended took of the processors. A subshell would
# have none.
processor_time() {
  times >"$reports/times"
  used=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s += 60 * t[1] + t[2] } printf "%d", s }' "$reports/times")
}

say setup
if ! make --no-print-directory setup; then
  echo "0 passed, 1 failed, 0 skipped" | tee "$reports/summary"
  exit 1
fi

total_passed=0 total_failed=0 total_skipped=0
for suite in "$@"; do
  say "$suite"
  export DLX_COUNTS=$PWD/$reports/$suite
  : >"$DLX_COUNTS"
  SECONDS=0
  processor_time
  before=$used
  # Without a pipe, whose end a process that a suite leaves behind would delay.
  make --no-print-directory "$suite" > >(tee "$reports/$suite.log") 2>&1
  status=$?
  elapsed=$SECONDS
  processor_time

  read -r passed failed skipped < <(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$DLX_COUNTS")
  if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
    failed=1
  elif [ "$status" = 0 ] && [ ! -s "$DLX_COUNTS" ]; then
    passed=1
  fi
  result=ok
  [ "$status" = 0 ] || result=FAILED
  printf '%-16s %-6s %5d passed %5d failed %5d skipped %5ds %5ds cpu\n' \
    "$suite" "$result" "$passed" "$failed" "$skipped" "$elapsed" "$((used - before))" | tee -a "$reports/summary"
  if [ "$status" != 0 ]; then
    sleep 1 # until tee has written the end
    grep -aE '=== FAIL|--- FAIL|^FAILED|^ERROR|panic:|[Ff]atal error|Fatal Python|DATA RACE|Sanitizer:|Segmentation fault' \
      "$reports/$suite.log" | head -20 | sed 's/^/    /' >>"$reports/summary"
  fi

  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
done

say "all suites"
echo "$total_passed passed, $total_failed failed, $total_skipped skipped" >>"$reports/summary"
cat "$reports/summary"
[ "$total_failed" = 0 ]
