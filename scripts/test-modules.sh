#!/usr/bin/env bash
# Tests the modules below interop/: the adapters whose libraries a user of core should not have to download. A new
# folder with a go.mod is found by itself. The arguments are steps; without any, all of them run:
#
#   tidy   go.mod and go.sum match the imports, and name no other version of what the main module names
#   lint   golangci-lint with the tags; also without cgo, of modules that have files for that
#   test   all tests
#   quick  the quick tests: see coretest.Quick
#   race   the short tests under the race detector, of modules with C, unsafe pointers or goroutines
#   asan   the short tests under the address sanitizer, of modules with C or unsafe pointers
#   cross  go vet without cgo, for this system and others
#
# What race and asan leave out uses the slices of package core, which the suites of the main module check in both ways.
#
# MODULES names the folders (default: all), for example MODULES=interop/gonum. The Makefile sets the other variables.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
# shellcheck source=scripts/counting.sh
. scripts/counting.sh

: "${TAGS=$(scripts/tags.sh)}" "${DRIVERS=scripts/software-drivers.sh}"
: "${GOLANGCILINT:=golangci-lint}" "${GOTESTSUM:=gotestsum}" "${GOTESTFLAGS:=-count=1}"
drivers=${DRIVERS:+$(realpath "$DRIVERS")}
steps=("$@")
[ $# != 0 ] || steps=(tidy lint test race asan cross)

has_step() { [[ " ${steps[*]} " == *" $1 "* ]]; }
# has reports whether a Go file of a module, tests aside, has a line that matches.
has() { grep -rqE --include='*.go' --exclude='*_test.go' "$2" "$1"; }
has_pointers() { has "$1" '^(import |	)"(C|unsafe)"'; }
has_goroutines() { has "$1" '^	+go |\.Go\('; }

# run counts one check of a module: its name, then the command, which runs in the folder of the module.
run() {
  local name=$1 module=$2
  shift 2
  if (cd "$module" && "$@"); then pass "$module: $name"; else fail "$module: $name"; fi
}

# tests runs tests, which gotestsum counts.
tests() {
  local name=$1 module=$2
  shift 2
  echo "-- $module: $name"
  # shellcheck disable=SC2086 # words
  (cd "$module" && $drivers $GOTESTSUM -- $GOTESTFLAGS -tags "$TAGS" "$@" ./...) || failures=$((failures + 1))
}

# same_versions reports every version in go.mod that is not the one of the main module.
same_versions() {
  local list='{{if and .Version (not .Main) (not .Replace)}}{{.Path}} {{.Version}}{{end}}' others
  others=$(comm -13 <(go -C "$root" list -m -f "$list" all | sort) <(go list -m -f "$list" all | sort) |
    join - <(go -C "$root" list -m -f '{{if not .Indirect}}'"$list"'{{end}}' all | sort))
  [ -z "$others" ] || { printf 'not the version of the main module (the last column):\n%s\n' "$others"; return 1; }
}

cross() {
  local target
  for target in "$(go env GOOS)/$(go env GOARCH)" darwin/arm64 windows/amd64; do
    CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go vet -tags "$TAGS" ./... || { echo "$target"; return 1; }
  done
}

asan=
has_step asan && scripts/probe-asan.sh && asan=yes

# lacks prints why a module cannot be tested here, if it cannot.
lacks() {
  case $1 in
    interop/opencv) pkg-config --exists opencv4 2>/dev/null || echo "OpenCV's packages are 150 MB: make interop-opencv tests it" ;;
    interop/ffmpeg) pkg-config --exists libavdevice 2>/dev/null || echo "without TAGS or drivers, FFmpeg's libraries are not installed" ;;
  esac
}

found=
for file in interop/*/go.mod; do
  module=${file%/go.mod}
  [[ " ${MODULES:-$module} " == *" $module "* ]] && [ -f "$file" ] || continue
  found=yes
  reason=$(lacks "$module")
  [ -z "$reason" ] || { skip "$module: $reason"; continue; }
  if has_step tidy; then
    run "go.mod is tidy" "$module" go mod tidy -diff
    run "the versions are those of the main module" "$module" same_versions
  fi
  if has_step lint; then
    run lint "$module" $drivers "$GOLANGCILINT" run --build-tags "$TAGS" ./...
    ! has "$module" '^//go:build .*!cgo' || CGO_ENABLED=0 run "lint without cgo" "$module" "$GOLANGCILINT" run ./...
  fi
  has_step quick && tests quick "$module" -short
  has_step test && tests test "$module"
  if has_step race && { has_pointers "$module" || has_goroutines "$module"; }; then
    GOEXPERIMENT=cgocheck2 tests "race detector" "$module" -short -race
  fi
  if [ -n "$asan" ] && has_pointers "$module"; then
    tests "address sanitizer" "$module" -short -asan ${KEEP:+-exec "env LD_PRELOAD=$KEEP"}
  fi
  has_step cross && run "vet for other systems" "$module" cross
done
[ -n "$found" ] || { echo "no module found"; exit 1; }
[ "$failures" = 0 ]
