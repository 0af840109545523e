#!/usr/bin/env bash
# Hands gotestsum's totals to run-suites.sh. Without it, when a suite is run alone, they go nowhere.
# A package that does not build is among the failed.
echo "$((TESTS_TOTAL - TESTS_FAILED - TESTS_SKIPPED)) $TESTS_FAILED $TESTS_SKIPPED" >>"${DLX_COUNTS:-/dev/null}"
