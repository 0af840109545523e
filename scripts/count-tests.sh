#!/usr/bin/env bash
# Appends gotestsum's totals to the file DLX_COUNTS, for run-suites.sh. A suite that is run alone has no such file.
# A package that does not build counts as failed.
echo "$((TESTS_TOTAL - TESTS_FAILED - TESTS_SKIPPED)) $TESTS_FAILED $TESTS_SKIPPED" >>"${DLX_COUNTS:-/dev/null}"
