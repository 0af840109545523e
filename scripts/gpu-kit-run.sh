#!/usr/bin/env bash
# Tests and measures dlx on the NVIDIA GPU of this machine. It is run.sh of the kit that make gpu-kit builds.
#
#   ./run.sh OUT [STEP...]          OUT: an empty or a new folder; STEP: the steps to run, all by default
#
# Uses the drivers that the system finds. Where the system has NVIDIA's driver but not the loader of Vulkan, OpenCL or
# EGL, or not the file that names the driver to the loader, the kit brings them; summary.json says which. Every step
# runs, even if earlier ones fail. The step first-session is first-session.sh, which also runs alone, and comes first on
# a card that is new to dlx. OUT gets summary.json, log.txt (the output of all steps), devices.json, the folder
# first-session, from the benchmark a file that is named after the GPU, and nvbandwidth.json.
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

. "$kit/drivers.sh"
# JAX would take most of the card's memory.
export XLA_PYTHON_CLIENT_PREALLOCATE=false

steps=() failures=0
left_out="TestHeaderStandsAlone TestADriverThatTakesOverSignals" # they need a compiler

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

# why_skipped prints the most frequent reason in the output of tests, or of first-session.sh.
why_skipped() {
  awk '
    /^=== / { test = $3; next }
    /^ *--- SKIP: / { if ($3 in says) print says[$3]; next }
    /^ *[a-z0-9_]+[.]go:[0-9]+: / { sub(/^[^:]*:[0-9]+: /, ""); says[test] = $0; next }
    /^skipped  / { for (i = 1; i <= 6; i++) $i = ""; sub(/^ */, ""); print }' |
    sort | uniq -c | sort -rn | awk 'NR == 1 { $1 = $1 " skipped:"; print }'
}

# step runs a command with a time limit, if the step is wanted. It counts the tests of a Go test program, or
# the libraries that a script has checked, or the experiments of first-session.sh, or else one test.
step() { # name, seconds, command...
  local name=$1 limit=$2 status=passed reason="" passed failed skipped
  is_wanted "$name" || return 0
  shift 2
  SECONDS=0
  timeout --kill-after=10 "$limit" "$@" >"$work/.step" 2>&1
  local code=$?
  { printf '\n== %s: %s\n' "$name" "$*"; cat "$work/.step"; } >>"$out/log.txt"
  passed=$(grep -c '^ *--- PASS\|^[0-9]* checks with \|^done  ' "$work/.step")
  failed=$(grep -cE '^ *--- FAIL|^(failed|crashed|killed)  ' "$work/.step")
  skipped=$(grep -cE '^ *--- SKIP|^skipped(: |  )' "$work/.step")
  if [ "$code" != 0 ]; then
    status=failed reason="ends with $code: $(grep -m 1 '^ *--- FAIL' "$work/.step" || tail -n 1 "$work/.step")"
    [ "$code" != 124 ] || reason="not done after $limit s"
    [ "$failed" != 0 ] || failed=1
  elif grep -q '^skipped: ' "$work/.step"; then # libraries
    [ "$passed" != 0 ] || status=skipped
    reason=$(grep '^skipped: ' "$work/.step")
  elif [ "$skipped" != 0 ]; then
    [ "$passed" != 0 ] || status=skipped
    reason=$(why_skipped <"$work/.step")
  elif [ "$passed" = 0 ]; then
    passed=1
  fi
  ! grep -q 'without the validation layer' "$work/.step" || reason+="${reason:+; }without the validation layer of Vulkan"
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
  step "$package" 300 "$kit/bin/$package.test" -test.v -test.timeout 290s -test.skip "^(${left_out// /|})\$"
done
# The backend for AMD's cards, over CUDA. NVIDIA's libcudart does not run on the simulated driver. With a card, a library
# that does not find it is a failure.
given 'has cuda && ! $simulated' "${card:-nothing} is no card: libcudart needs NVIDIA's driver" backends-rocm 300 \
  env -u DLX_WITHOUT_DRIVERS DLX_HIP_LIBRARY="$kit/hip/libdlxhip-nvidia.so" "$kit/bin/backends-rocm.test" -test.v -test.timeout 290s \
  -test.run '^(TestConformance|TestCloseEndsWhileOthersOpen)$'
step move 60 dlx move "$kit/digits.npy" --via cpu,cuda:0,cpu --repeat 100 --verify
given 'has vulkan' "no Vulkan here" move-vulkan 60 \
  dlx move "$kit/digits.npy" --via cpu,cuda:0,vulkan:0,cpu --repeat 100 --verify
given 'on_card vulkan' "no Vulkan on this card" example 60 cudavulkan
given 'on_card vulkan' "no Vulkan on this card" example-picture 60 renderer
given 'command -v "$DLX_PYTHON" >/dev/null' "no $DLX_PYTHON here" array-libraries 300 \
  "$DLX_PYTHON" "$kit/array_libraries_check.py" "$kit/bin/libdlx.so"
step first-session 600 "$kit/first-session.sh" "$out/first-session"
# UCX is no part of the kit; DLX_UCX_LIBRARY names one, such as lib/libucp.so.0 of what scripts/fetch-ucx.sh fetches. On a card it
# must use the card's memory itself, on the simulator it cannot.
ucx=$(sed -n 's/^UCX[[:space:]]*//p' <<<"$devices") direct=1
! $simulated || direct=
cards=(env ${direct:+DLX_REMOTE_MUST_BE_DIRECT=1} "$kit/bin/remote.test" -test.v -test.timeout 110s
  -test.run '^(TestPathsSayWhy|TestCardsOfTwoProcesses)$')
given 'has cuda && [[ $ucx = available* ]]' "UCX: ${ucx:-no line of dlx devices}" remote 120 "${cards[@]}"
given 'has cuda && [[ $ucx = available* ]] && [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]' "not run: no RDMA device here, or UCX: ${ucx:-no line of dlx devices}" \
  remote-rdma 120 env UCX_TLS=rc,cuda_copy,self "${cards[@]}"
slug=$(tr -cs '[:alnum:]' - <<<"${card,,}" | sed 's/-*$//')
given 'has cuda && ! $simulated' "${card:-nothing} is no card: it is not measured" bench 540 \
  dlx bench -t '*_ce*' -t '*_sm*' -t device_local_copy -t strided -t many -t latency -t streams -t alloc -t exchange -t handoff \
  -t signal_to_wait -t wait_lateness -t file_to_device --budget 7m --out "$out/$slug.json"
# nvbandwidth is no part of the kit: it is compared where the machine has it.
given 'has cuda && ! $simulated && command -v nvbandwidth >/dev/null' "no nvbandwidth on the PATH, or ${card:-nothing} is no card" nvbandwidth 300 \
  peers -peer nvbandwidth -out "$out/nvbandwidth.json" -table "$out/nvbandwidth.md"

for name in $unknown; do
  note "$name" failed 0 1 0 0 "there is no such step"
done

{
  printf '{\n  "card": %s,\n  "driver": %s,\n  "simulated": %s,\n  "date": "%s",\n  "kernel": %s,\n  "revision": %s,\n  "brought": %s,\n  "left_out": %s,\n  "steps": [\n' \
    "$(json "$card")" "$(json "$driver")" "$simulated" "$(date -u +%FT%TZ)" "$(json "$(uname -srm)")" \
    "$(json "$(dlx version | sed -n 's/^revision *//p')")" "$(json "${brought[*]:-}")" \
    "$(json "$left_out")"
  for i in "${!steps[@]}"; do
    printf '    %s%s\n' "${steps[i]}" "$([ "$((i + 1))" = "${#steps[@]}" ] || echo ,)"
  done
  printf '  ]\n}\n'
} >"$out/summary.json"
echo "${#steps[@]} steps, $failures failed: see $out/summary.json"
[ "$failures" = 0 ]
