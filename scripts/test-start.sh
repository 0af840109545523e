#!/usr/bin/env bash
# Proves that a program with the backends named (the first argument, build tags) starts without any of
# their drivers and gives the reason for each: it needs no library of theirs, starts where there is
# nothing but the C library, and starts where the loaders are there and find no driver.
set -uo pipefail
cd "$(dirname "$0")/.."
tags=$1

count() { echo "$1" >>"${DLX_COUNTS:-/dev/null}"; }
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/root"
dlx=$work/root/dlx
CGO_ENABLED=1 go build -tags "$tags" -o "$dlx" ./cmd/dlx || { fail "dlx builds with -tags $tags"; exit 1; }

# has_reasons is true if the program, run by the command before it, lists each backend as not available.
has_reasons() {
  report=$("$@" devices 2>&1) || { echo "ends with $?:"; echo "$report"; return 1; }
  for backend in ${tags//,/ }; do
    grep -q "^BACKEND $backend  *not available: ." <<<"$report" || { echo "no reason for $backend:"; echo "$report"; return 1; }
  done
}

name="the program is linked with no library of a driver"
linked=$(readelf --dynamic --wide "$dlx") || fail "$name: readelf"
if found=$(grep -E 'NEEDED.*lib(vulkan|OpenCL|EGL|GL|GLX|GLESv2|OpenGL)\.' <<<"$linked"); then
  fail "$name: $found"
else
  pass "$name"
fi

name="the program starts where the loaders find no driver"
if why=$(has_reasons env VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent OCL_ICD_VENDORS="$work" \
  __EGL_VENDOR_LIBRARY_FILENAMES=/nonexistent "$dlx"); then
  pass "$name"
else
  fail "$name: $why"
fi

# A root folder with the program, the libraries that it is linked with, and nothing else.
name="the program starts where there are no loaders"
ldd "$dlx" | grep -oE '/[^ ]+' | while read -r library; do
  install -D "$library" "$work/root$library"
done
if [ "$(id -u)" = 0 ]; then
  enter=(chroot "$work/root")
else
  enter=(unshare --map-root-user --root="$work/root")
fi
if ! why=$("${enter[@]}" /dlx version 2>&1) && [[ $why =~ [Pp]ermi|permitted ]]; then
  echo "skipped: $name: $why"
  count "0 0 1"
elif why=$(has_reasons "${enter[@]}" /dlx); then
  pass "$name"
else
  fail "$name: $why"
fi
[ "$failures" = 0 ]
