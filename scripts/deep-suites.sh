#!/usr/bin/env bash
# Prints the deep suites that changes need, by the table in deep-suites.txt. DEEP_SUITES names those that this machine has.
#
#   deep-suites.sh BASE               those for the paths that differ from the commit BASE, files that git does not know included
#   deep-suites.sh --ci               all: first those for the newest of the last 20 commits, then those for the one before
#                                     it and so on, then the others, each day beginning with another one
#   deep-suites.sh --paths PATH...    those for these paths
#   deep-suites.sh --seconds SUITE    how long a suite takes on two cores
#   deep-suites.sh --check SUITE...   fails if the table and the arguments name different suites, or if a pattern is wrong
set -euo pipefail
cd "$(dirname "$0")/.."
table=scripts/deep-suites.txt
rows() { sed -E 's/#.*//; s/ *\| */|/g; /^ *$/d' "$table"; }
names() { rows | cut -d'|' -f1; }

# touched reads paths and prints the suites that one of them needs.
touched() {
  local paths suite patterns pattern
  paths=$(grep -v '\.md$' || true) # no suite reads text but those of make test
  while IFS='|' read -r suite _ patterns; do
    set -f # patterns are no names of files
    for pattern in $patterns; do
      if grep -qE -- "$pattern" <<<"$paths"; then
        echo "$suite"
        break
      fi
    done
    set +f
  done < <(rows)
}

# here keeps the suites that this machine has, each once.
here() { awk -v has="${DEEP_SUITES:-$(names | paste -sd ' ' -)}" 'BEGIN { n = split(has, h); for (i = 1; i <= n; i++) ok[h[i]] = 1 } ok[$1] && !seen[$1]++'; }

case ${1:-} in
--ci)
  {
    commits=$(git rev-list --max-count=20 HEAD)
    for commit in $commits; do
      git -c core.quotePath=false diff-tree --no-commit-id --no-renames --name-only -r -m "$commit" | touched
    done
    day=$(($(date +%s) / 86400 % $(names | wc -l)))
    names | tail -n +$((day + 1))
    names
  } | here
  ;;
--paths) printf '%s\n' "${@:2}" | touched | here ;;
--seconds) rows | awk -F'|' -v suite="$2" '$1 == suite { print $2; found = 1 } END { exit !found }' ;;
--check)
  shift
  diff <(names | sort) <(printf '%s\n' "$@" | sort) || { echo "$table and the Makefile name different suites (< the table, > the Makefile)"; exit 1; }
  bad=$(rows | grep -vE '^[a-z0-9-]+\|[0-9]+\|[^|]' || true)
  [ -z "$bad" ] || { printf 'not "suite | seconds | patterns":\n%s\n' "$bad"; exit 1; }
  # A pattern that matches no file is a mistake, or its files have moved.
  files=$(git ls-files --cached --others --exclude-standard)
  while IFS='|' read -r suite _ patterns; do
    set -f
    for pattern in $patterns; do
      grep -qE -- "$pattern" <<<"$files" || { echo "$suite: no file matches $pattern"; exit 1; }
    done
    set +f
  done < <(rows)
  ;;
"")
  echo "usage: deep-suites.sh BASE | --ci | --paths PATH... | --seconds SUITE | --check SUITE..." >&2
  exit 2
  ;;
*)
  paths=$(git -c core.quotePath=false diff --no-renames --name-only "$1" -- && git -c core.quotePath=false ls-files --others --exclude-standard)
  touched <<<"$paths" | here
  ;;
esac
