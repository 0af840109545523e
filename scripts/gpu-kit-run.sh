#!/usr/bin/env bash
# Tests and measures dlx on the NVIDIA GPU of this machine. It is run.sh of the kit that make gpu-kit builds.
#
#   ./run.sh OUT [STEP...]          OUT: an empty or a new folder; STEP: the steps to run, all by default
#
# Uses the drivers that the system finds. Where the system has NVIDIA's driver but not the loader of Vulkan, OpenCL or
# EGL, or not the file that names the driver to the loader, the kit brings them; summary.json says which. Every step
# runs, even if earlier ones fail. OUT gets summary.json, log.txt (the output of all steps), devices.json, and from the
# benchmark a file that is named after the GPU.
# To test the kit itself, set DLX_CUDA_LIBRARY to the simulator: summary.json then says "simulated", and
# nothing is measured. The exit status is 0 if no step failed.
set -uo pipefail
[ $# != 0 ] || { echo "usage: $0 OUT [STEP...]" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
[ -z "$(ls -A "$out")" ] || { echo "$1 is not empty" >&2; exit 2; }
shift
wanted=" $* " unknown=" $* "
kit=$(cd "$(dirname "$0")" && pwd)
export PATH=$kit/bin:$PATH LC_ALL=C DLX_PYTHON=${DLX_PYTHON:-python3}
# Drivers of other APIs than CUDA may be missing: their tests are skipped. The step devices checks CUDA's driver.
export DLX_WITHOUT_DRIVERS=1
# Pairs of more than two GPUs give no new results, and take long.
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0,1}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2 # tests may leave files in the current folder

# Users other than root often have no /sbin in PATH.
libraries=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p) || exit 2
installed() { grep -q "^[[:space:]]*$1 .*x86-64" <<<"$libraries"; }
brought=()
mkdir "$work/lib"
for library in "$kit"/lib/*; do
  if ! installed "${library##*/}"; then
    ln -s "$library" "$work/lib/"
    brought+=("${library##*/}")
  fi
done
export LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

any() { for file; do [ ! -e "$file" ] || return 0; done; return 1; }
if installed libEGL_nvidia.so.0; then
  # libGLX_nvidia.so.0, which the files of the system name, needs X11. The same driver is in libEGL_nvidia.so.0.
  if [ -z "${VK_DRIVER_FILES:-}" ] && { ! installed libX11.so.6 || ! any {/usr/share,/usr/local/share,/etc}/vulkan/icd.d/*nvidia*; }; then
    echo '{"file_format_version": "1.0.1", "ICD": {"library_path": "libEGL_nvidia.so.0", "api_version": "1.3.0"}}' >nvidia_icd.json
    export VK_DRIVER_FILES=$work/nvidia_icd.json VK_ICD_FILENAMES=$work/nvidia_icd.json
    brought+=(nvidia_icd.json)
  fi
  if [ -z "${__EGL_VENDOR_LIBRARY_FILENAMES:-}" ] && ! any {/usr/share,/usr/local/share,/etc}/glvnd/egl_vendor.d/*nvidia*; then
    echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0"}}' >10_nvidia.json
    export __EGL_VENDOR_LIBRARY_FILENAMES=$work/10_nvidia.json
    brought+=(10_nvidia.json)
  fi
fi
if [ -z "${OCL_ICD_VENDORS:-}" ] && installed libnvidia-opencl.so.1 && ! any /etc/OpenCL/vendors/nvidia*; then
  mkdir vendors
  echo libnvidia-opencl.so.1 >vendors/nvidia.icd
  export OCL_ICD_VENDORS=$work/vendors
  brought+=(nvidia.icd)
fi
# JAX would take most of the card's memory.
export XLA_PYTHON_CLIENT_PREALLOCATE=false

steps=() failures=0

json() { # the text as a JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "$(tr -s '[:cntrl:]' ' ' <<<"$text" | sed 's/ $//')"
}

note() { # name, status, passed, failed, skipped, seconds, reason
  steps+=("$(printf '{"name": "%s", "status": "%s", "passed": %d, "failed": %d, "skipped": %d, "seconds": %d, "reason": %s}' \
    "${@:1:6}" "$(json "${7:-}")")")
  [ "$2" != failed ] || failures=$((failures + 1))
  printf '%-16s %-8s %4d passed %3d failed %3d skipped %4ds  %s\n' "${@:1:6}" "${7:-}"
}

is_wanted() {
  while [[ $unknown = *" $1 "* ]]; do unknown=${unknown/ $1 / }; done
  [[ $wanted = "  " || $wanted = *" $1 "* ]]
}

# step runs a command with a time limit, if the step is wanted. It counts the tests of a Go test program, or
# the libraries that a script has checked, or else one test.
step() { # name, seconds, command...
  local name=$1 limit=$2 status=passed reason="" passed failed skipped
  is_wanted "$name" || return 0
  shift 2
  SECONDS=0
  timeout --kill-after=10 "$limit" "$@" >"$work/.step" 2>&1
  local code=$?
  { printf '\n== %s: %s\n' "$name" "$*"; cat "$work/.step"; } >>"$out/log.txt"
  passed=$(grep -c '^ *--- PASS\|^[0-9]* checks with ' "$work/.step")
  failed=$(grep -c '^ *--- FAIL' "$work/.step")
  skipped=$(grep -c '^ *--- SKIP\|^skipped: ' "$work/.step")
  if [ "$code" != 0 ]; then
    status=failed reason="ends with $code: $(grep -m 1 '^ *--- FAIL' "$work/.step" || tail -n 1 "$work/.step")"
    [ "$code" != 124 ] || reason="not done after $limit s"
    [ "$failed" != 0 ] || failed=1
  elif [ "$passed" = 0 ] && [ "$skipped" != 0 ]; then
    status=skipped reason=$(grep -m 1 -A 1 '^ *--- SKIP\|^skipped: ' "$work/.step")
  elif grep -q '^skipped: ' "$work/.step"; then # libraries, of which the others passed
    reason=$(grep '^skipped: ' "$work/.step")
  elif grep -q 'without the validation layer' "$work/.step"; then
    reason="without the validation layer of Vulkan"
  elif [ "$passed" = 0 ]; then
    passed=1
  fi
  note "$name" "$status" "$passed" "$failed" "$skipped" "$SECONDS" "$reason"
}

# given is step if a condition is true, and else a skipped step with a reason.
given() { # condition, reason, name, seconds, command...
  if eval "$1"; then
    step "${@:3}"
  elif is_wanted "$3"; then
    note "$3" skipped 0 0 1 0 "$2"
  fi
}

# This step always runs: without the GPU the other steps mean little.
is_wanted devices
devices=$(timeout 60 dlx devices 2>&1)
printf '%s\n' "$devices" >"$out/log.txt"
has() { grep -q "^BACKEND $1  *available" <<<"$devices"; }
on_card() { # whether a device of a backend is the card cuda:0
  awk -v "backend=$1" '/^BACKEND/ { here = $2 } /^  DEVICE/ { device = $2 }
    $1 == "uuid" && device == "cuda:0" { card = $2 } $1 == "uuid" && here == backend && $2 == card { found = 1 }
    END { exit !found }' <<<"$devices"
}
if has cuda; then
  note devices passed 1 0 0 0
else
  note devices failed 0 1 0 0 "$(grep '^BACKEND cuda' <<<"$devices")"
fi
card=$(sed -n 's/^  DEVICE cuda:0 *//p' <<<"$devices")
driver=$(awk '/^  DEVICE cuda:0/ { here = 1 } here && $1 == "driver" { $1 = ""; print substr($0, 2); exit }' <<<"$devices")
simulated=false
[[ $card != *simulated* ]] || simulated=true
number=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
[ -z "$number" ] || driver+=", driver $number"
timeout 60 dlx devices --json >"$out/devices.json"

given 'command -v nvidia-smi >/dev/null' "no nvidia-smi here" nvidia-smi 60 nvidia-smi -q
for package in backends-cuda exchange interop-gl backends-vulkan backends-opencl backends-gl; do
  # Left out: what needs a compiler.
  step "$package" 300 "$kit/bin/$package.test" -test.v -test.timeout 290s -test.skip TestHeaderStandsAlone
done
step handoff 60 dlx handoff "$kit/digits.npy" --via cpu,cuda:0,cpu --repeat 100 --verify
given 'has vulkan' "no Vulkan here" handoff-vulkan 60 \
  dlx handoff "$kit/digits.npy" --via cpu,cuda:0,vulkan:0,cpu --repeat 100 --verify
given 'on_card vulkan' "no Vulkan on this card" example 60 cudavulkan
given 'command -v "$DLX_PYTHON" >/dev/null' "no $DLX_PYTHON here" array-libraries 300 \
  "$DLX_PYTHON" "$kit/array_libraries_check.py" "$kit/bin/libdlx.so"
slug=$(tr -cs '[:alnum:]' - <<<"${card,,}" | sed 's/-*$//')
given 'has cuda && ! $simulated' "${card:-nothing} is no card: it is not measured" bench 540 \
  dlx bench -t device/ -t exchange/ -t cuda/ --out "$out/$slug.json"

for name in $unknown; do
  note "$name" failed 0 1 0 0 "there is no such step"
done

{
  printf '{\n  "card": %s,\n  "driver": %s,\n  "simulated": %s,\n  "date": "%s",\n  "kernel": %s,\n  "revision": %s,\n  "brought": %s,\n  "steps": [\n' \
    "$(json "$card")" "$(json "$driver")" "$simulated" "$(date -u +%FT%TZ)" "$(json "$(uname -srm)")" \
    "$(json "$(dlx version | sed -n 's/^revision *//p')")" "$(json "${brought[*]:-}")"
  for i in "${!steps[@]}"; do
    printf '    %s%s\n' "${steps[i]}" "$([ "$((i + 1))" = "${#steps[@]}" ] || echo ,)"
  done
  printf '  ]\n}\n'
} >"$out/summary.json"
echo "${#steps[@]} steps, $failures failed: see $out/summary.json"
[ "$failures" = 0 ]
