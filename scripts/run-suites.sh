#!/usr/bin/env bash
# Installs what the suites need and runs the suites that are named, which are targets of the Makefile. All of them
# run, even if one fails. Then follow a line of counts, "N passed, N failed, N skipped", and lines that name the
# suites of make test-all that did not run. The suites that failed stand just before the counts, since a log may be cut
# to its end.
#
#   run-suites.sh SUITE... [--until MINUTES SUITE...]
#
# A suite after --until begins only if it would end by that time, as far as deep-suites.txt knows. With --until, a suite is
# ended 35 minutes after that time.
#
# Each suite's line ends with its time and the processor time of all its processes, both in seconds.
#
# Below the summary stand, for each suite that failed, the lines of its output that name failures, at most 20.
#
# A suite may append lines "passed failed skipped" to the file DLX_COUNTS. A suite without such lines counts as one
# test, which has passed if the suite exits with 0.
set -uo pipefail
cd "$(dirname "$0")/.."
begin=$(date +%s)

reports=.test
rm -rf "$reports"
mkdir "$reports"

say() { printf '\n== %s\n' "$1"; }
elapsed() { echo $(($(date +%s) - begin)); }

# processor_time sets used to the seconds that the processes which have ended took of the processors. A subshell would
# have none.
processor_time() {
  times >"$reports/times"
  used=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s += 60 * t[1] + t[2] } printf "%d", s }' "$reports/times")
}

# row prints a line of the summary: the suite, its result, its counts and its times.
row() { printf '%-20s %-6s %5d passed %5d failed %5d skipped %5ds %5ds cpu\n' "$@" | tee -a "$reports/summary"; }

say setup
if ! make --no-print-directory --jobs=2 setup; then
  echo "0 passed, 1 failed, 0 skipped" | tee "$reports/summary" "$reports/counts"
  exit 1
fi
processor_time
row setup ok 0 0 0 "$(elapsed)" "$used"

# Some drivers are large. They are fetched while other suites run; the suite that needs them waits.
if [[ " $* " = *" quick-newer-drivers "* ]]; then make --no-print-directory newer-drivers >"$reports/newer-drivers.log" 2>&1 & fi

total_passed=0 total_failed=0 total_skipped=0 limit='' did=' '
last= # when the last suite is ended, in seconds
[[ " $* " != *" --until "* ]] || last=$(($(sed 's/.* --until \([0-9]*\).*/\1/' <<<" $*") * 60 + 35 * 60))
while [ $# != 0 ]; do
  if [ "$1" = --until ]; then
    limit=$(($2 * 60))
    shift 2
    continue
  fi
  suite=$1
  shift
  did+="$suite "
  timeout=()
  if [ -n "$limit" ]; then
    needs=$(scripts/deep-suites.sh --seconds "$suite")
    if [ $(($(elapsed) + needs)) -gt "$limit" ]; then
      echo "$suite ($(((needs + 59) / 60)) of $(((limit - $(elapsed)) / 60)) minutes left)" | tee -a "$reports/left"
      continue
    fi
  fi
  [ -z "$last" ] || timeout=(timeout --kill-after=10 $((last - $(elapsed))))
  say "$suite"
  export DLX_COUNTS=$PWD/$reports/$suite
  : >"$DLX_COUNTS"
  SECONDS=0
  processor_time
  before=$used
  # Without a pipe, whose end a process that a suite leaves behind would delay.
  ${timeout[@]+"${timeout[@]}"} make --no-print-directory "$suite" > >(tee "$reports/$suite.log") 2>&1
  status=$?
  took=$SECONDS
  processor_time

  read -r passed failed skipped < <(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$DLX_COUNTS")
  if [ "$status" != 0 ] && [ "$failed" = 0 ]; then
    failed=1
  elif [ "$status" = 0 ] && [ ! -s "$DLX_COUNTS" ]; then
    passed=1
  fi
  result=ok
  [ "$status" = 0 ] || result=FAILED
  row "$suite" "$result" "$passed" "$failed" "$skipped" "$took" "$((used - before))"
  if [ "$status" != 0 ]; then
    sleep 1 # until tee has written the end
    echo "$suite FAILED" >>"$reports/failures"
    grep -aE '=== FAIL|--- FAIL|^FAILED|^ERROR|panic:|[Ff]atal error|Fatal Python|DATA RACE|Sanitizer:|Segmentation fault' \
      "$reports/$suite.log" | head -20 | sed 's/^/    /' >>"$reports/failures"
  fi

  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
done

say "all suites"
cat "$reports/summary"
processor_time
echo "$(elapsed) s, $used s of processor time"
[ ! -f "$reports/left" ] || echo "not run, since they take longer than what is left of $((limit / 60)) minutes: $(paste -sd, "$reports/left" | sed 's/,/, /g')"
[ ! -f "$reports/failures" ] || cat "$reports/failures"
echo "$total_passed passed, $total_failed failed, $total_skipped skipped" | tee "$reports/counts"
others=
for suite in ${DEEP_SUITES:-}; do
  [[ $did = *" $suite "* ]] || others+=" $suite"
done
[ -z "$others" ] || echo "not run here, make test-all has:$others"
[[ ! ${NOT_HERE:-} = *test* ]] || echo "this system, or a build with these tags, lacks: $NOT_HERE"
[ "$total_failed" = 0 ]
