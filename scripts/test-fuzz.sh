#!/usr/bin/env bash
# Fuzzes every target of every package for the given time, one after the other, those of the modules below interop
# too. go test keeps an input that fails in the package's testdata/fuzz; later runs use it as a test.
set -uo pipefail
cd "$(dirname "$0")/.."
fuzztime=$1

# go test -list prints the names, then a line "ok  package".
failures=0
targets=
for module in . interop/*/go.mod; do
  module=${module%/go.mod}
  [ -f "$module/go.mod" ] || continue
  # The other packages need not be linked.
  mapfile -t packages < <(cd "$module" && go list -f '{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}' ./... |
    sed '/^$/d' | xargs grep -l '^func Fuzz' | sed 's,/[^/]*$,,' | sort -u)
  [ ${#packages[@]} -gt 0 ] || continue
  if ! list=$(go -C "$module" test -vet=off -list '^Fuzz' "${packages[@]}"); then
    printf '%s\n' "$list"
    failures=1
    echo "0 1 0" >>"${DLX_COUNTS:-/dev/null}"
  fi
  targets+=$(awk -v m="$module" '/^Fuzz/ { names[n++] = $1 } /^ok/ { for (i = 0; i < n; i++) print m, $2, names[i]; n = 0 }' <<<"$list")$'\n'
done
targets=$(sed '/^$/d' <<<"$targets")
[ -n "$targets" ] || { echo "no fuzz target found"; exit 1; }

output=$(mktemp)
trap 'rm -f "$output"' EXIT

fuzz() { # module, package, target
  go -C "$1" test -vet=off -run '^$' -fuzz "^$3\$" -fuzztime "$fuzztime" -timeout 10m "$2" >"$output" 2>&1
}

# A run may fail only because its time is over (go.dev/issue/75804).
was_late() { grep -q 'context deadline exceeded' "$output" && ! grep -q 'Failing input\|panic' "$output"; }

while read -r module package target; do
  echo "-- $package $target"
  fuzz "$module" "$package" "$target"
  code=$?
  if [ "$code" != 0 ] && was_late; then
    echo "the fuzzer noticed the end of its time too late: trying again"
    fuzz "$module" "$package" "$target"
    code=$?
  fi
  cat "$output"
  if [ "$code" = 0 ]; then
    echo "1 0 0" >>"${DLX_COUNTS:-/dev/null}"
  else
    echo "0 1 0" >>"${DLX_COUNTS:-/dev/null}"
    failures=$((failures + 1))
  fi
done <<<"$targets"
[ "$failures" = 0 ]
