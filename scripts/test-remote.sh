#!/usr/bin/env bash
# Tests package remote with the UCX of the system, and with those that scripts/fetch-ucx.sh has put into the given folder:
# over TCP and over shared memory, the system's and the newest by all tests, the others by the quick ones. It also builds and
# tests remote/internal/ucx with the headers of each version. A version that could not be fetched is skipped, with the
# reason.
#
#   scripts/test-remote.sh FOLDER
#
# TAGS are the backends of the build, DRIVERS a command that chooses their drivers. make sets the flags of the compiler.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
folder=$(cd "$1" && pwd) || exit
. scripts/counting.sh

read -ra drivers <<<"${DRIVERS-scripts/software-drivers.sh}"
read -ra gotestsum <<<"${GOTESTSUM:-go tool gotestsum}"
read -ra flags <<<"${GOTESTFLAGS:--count=1 -vet=off}"
tags=${TAGS-$(scripts/tags.sh)}
export CGO_ENABLED=1
status=0

# with runs a command with a version of UCX, or with that of the system if the version is "system".
with() {
  local library=
  [ "$1" = system ] || library=$folder/$1/lib/libucp.so.0
  DLX_UCX_LIBRARY=$library "${@:2}"
}

# The last version is the newest.
mapfile -t versions < <(sed -n 's/^libucx-cu12==\([0-9.]*[0-9]\).*/\1/p' requirements-ucx.txt)
[ "${#versions[@]}" != 0 ] || fail "requirements-ucx.txt names versions"

for version in system "${versions[@]}"; do
  if [ "$version" != system ] && [ -f "$folder/$version/why" ]; then
    skip "no UCX $version: $(cat "$folder/$version/why")"
    continue
  fi
  short=(-short)
  case $version in system | "${versions[-1]}") short=() ;; esac
  for transport in tcp sysv; do
    export UCX_TLS=$transport,self
    # The library and the transport are those that are meant.
    name="UCX $version: the tests use it, over $transport"
    said=$(with "$version" go test -count=1 -vet=off -tags "$tags" -run '^TestSizes$' -v ./remote 2>&1)
    if grep -qE "UCX ${version/system/[0-9.]+}: \[$transport" <<<"$said"; then
      pass "$name"
    else
      fail "$name" "$said"
      continue
    fi
    echo "UCX $version over $transport, all tests${short[*]:+ with} ${short[*]}:"
    with "$version" "${drivers[@]}" "${gotestsum[@]}" -- "${flags[@]}" "${short[@]}" -tags "$tags" ./remote/... || status=1
  done
  unset UCX_TLS
  [ "$version" != system ] || continue
  name="UCX $version: its headers build the package, which works with its library"
  if said=$(CGO_CFLAGS="-I$folder/$version/include ${CGO_CFLAGS:--g -O2}" with "$version" \
    go test -count=1 -vet=off -short -tags ucx ./remote/internal/ucx 2>&1); then
    pass "$name"
  else
    fail "$name" "$said"
  fi
done
[ "$failures" = 0 ] && [ "$status" = 0 ]
