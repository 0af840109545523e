#!/usr/bin/env bash
# Tests that a program with the given backends (the first argument, build tags) starts without their drivers, and
# prints the reason why each is missing. The program is linked with no driver's library. It starts where there is
# only the C library, where the loaders find no driver, and where CUDA's driver finds no GPU. make calls this
# script, and sets the compiler flags that find cuda.h. For HIP it also takes AMD's own library, where it is installed.
set -uo pipefail
cd "$(dirname "$0")/.."
tags=$1

. scripts/counting.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/chroot"
dlx=$work/chroot/dlx
CGO_ENABLED=1 go build -tags "$tags" -o "$dlx" ./cmd/dlx || { fail "dlx builds with -tags $tags"; exit 1; }

# has_reasons runs the program by the command after the first two arguments. It is true if the program lists each
# backend in the first argument as not available, for a reason that contains the second argument.
has_reasons() {
  report=$("${@:3}" devices 2>&1) || { echo "ends with $?:"; echo "$report"; return 1; }
  for backend in ${1//,/ }; do
    [ "$backend" != ucx ] || { grep -qE "^UCX +not available: .*$2" <<<"$report" || { echo "no reason for ucx:"; echo "$report"; return 1; }; continue; }
    grep -qE "^BACKEND $backend +(not available: .*$2|needs macOS)" <<<"$report" || { echo "no reason for $backend:"; echo "$report"; return 1; }
  done
}

name="the program is linked with no library of a driver"
linked=$(readelf --dynamic --wide "$dlx") || fail "$name: readelf"
if found=$(grep -E 'NEEDED.*lib(vulkan|OpenCL|EGL|GL|GLX|GLESv2|OpenGL|cuda|cudart|amdhip64|hiprtc|hsa-runtime64)\.' <<<"$linked"); then
  fail "$name: $found"
else
  pass "$name"
fi

name="the program starts where the loaders find no driver"
if why=$(has_reasons "$tags" . env VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent OCL_ICD_VENDORS="$work" \
  __EGL_VENDOR_LIBRARY_FILENAMES=/nonexistent DLX_CUDA_LIBRARY=/nonexistent DLX_HIP_LIBRARY=/nonexistent DLX_UCX_LIBRARY=/nonexistent "$dlx"); then
  pass "$name"
else
  fail "$name: $why"
fi

name="the program starts where CUDA's driver finds no card"
if [[ ,$tags, = *,cuda,* ]]; then
  if [ "${DLX_WITHOUT_DRIVERS:-}" = 1 ]; then
    echo "skipped: $name: DLX_WITHOUT_DRIVERS=1, so the simulator is not built"
    count "0 0 1"
  elif why=$(has_reasons cuda CUDA_ERROR_NO_DEVICE scripts/software-drivers.sh env DLX_GPUSIM_DEVICES=0 "$dlx"); then
    pass "$name"
  else
    fail "$name: $why"
  fi
fi

name="the program starts where AMD's own library of HIP finds no card"
if [[ ,$tags, = *,rocm,* ]]; then
  if [ "${DLX_WITHOUT_DRIVERS:-}" = 1 ]; then
    echo "skipped: $name: DLX_WITHOUT_DRIVERS=1, so the library need not be installed"
    count "0 0 1"
  elif [ -e /dev/kfd ]; then
    echo "skipped: $name: this machine may have a card of AMD: there is /dev/kfd"
    count "0 0 1"
  elif why=$(has_reasons rocm hipErrorNoDevice env -u DLX_HIP_LIBRARY "$dlx"); then
    pass "$name"
  else
    fail "$name: $why"
  fi
fi

# A root folder that has only the program and the libraries that it is linked with.
name="the program starts where there are no loaders"
ldd "$dlx" | grep -oE '/[^ ]+' | while read -r library; do
  install -D "$library" "$work/chroot$library"
done
if [ "$(id -u)" = 0 ]; then
  enter=(chroot "$work/chroot")
else
  enter=(unshare --map-root-user --root="$work/chroot")
fi
if ! why=$("${enter[@]}" /dlx version 2>&1) && [[ $why =~ [Pp]ermi|permitted ]]; then
  echo "skipped: $name: $why"
  count "0 0 1"
elif why=$(has_reasons "$tags" . "${enter[@]}" /dlx); then
  pass "$name"
else
  fail "$name: $why"
fi
[ "$failures" = 0 ]
