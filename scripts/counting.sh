# Counts and prints the results of tests that are written in bash, for the scripts that source it. See run-suites.sh.
# shellcheck shell=bash

count() { echo "$1" >>"${DLX_COUNTS:-/dev/null}"; } # "passed failed skipped"
failures=0
fail() {
  printf 'FAILED: %s\n' "$@"
  count "0 1 0"
  failures=$((failures + 1))
}
pass() {
  echo "ok: $1"
  count "1 0 0"
}
skip() {
  echo "skipped: $1"
  count "0 0 1"
}
