#!/usr/bin/env bash
# Tests that dlx opens NVIDIA's own libcuda of several drivers: those that scripts/fetch-drivers.sh has put into the
# given folder, and those whose paths DLX_CUDA_DRIVERS has, separated by colons. No card is needed: a library is opened
# if cuInit answers, and without a card it answers CUDA_ERROR_NO_DEVICE. make calls this script, and sets the compiler
# flags that find cuda.h.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

. scripts/counting.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=1 go build -tags cuda -o "$work/dlx" ./cmd/dlx || { fail "dlx builds with -tags cuda"; exit 1; }
sed -n 's/^\tX(\(cu[A-Za-z0-9_]*\)).*/\1/p' backends/cuda/internal/link/symbols.h | sort >"$work/symbols"
CGO_ENABLED=1 go build -tags cuda,vulkan -o "$work/firstsession" ./benchmarks/lab/firstsession || { fail "firstsession builds"; exit 1; }
[ -s "$work/symbols" ] || fail "symbols.h has functions"

# lacking prints the functions in symbols.h that a library does not have.
lacking() {
  nm --dynamic --defined-only --format=posix "$1" | cut -d' ' -f1 | cut -d@ -f1 | sort -u |
    comm -23 "$work/symbols" - | paste -sd' '
}

# test_driver tests one library. Its name ends in the version of the driver.
test_driver() {
  version=${1##*/libcuda.so.}
  # dlx works without these, see link.required. cuFuncLoad came with CUDA 12.4, which is driver 550, and
  # cuMemcpyBatchAsync with CUDA 12.8 and, with other parameters, CUDA 13.0: drivers 570 and 580.
  missing=()
  [ "${version%%.*}" -ge 550 ] || missing+=(cuFuncLoad)
  [[ $version != 470.* ]] || missing+=(cuGraphAddKernelNode_v2 cuMemGetHandleForAddressRange cuStreamGetId cuStreamWaitValue32_v2 cuStreamWriteValue32_v2)
  [ "${version%%.*}" -ge 570 ] || missing+=(cuMemcpyBatchAsync)
  [ "${version%%.*}" -ge 580 ] || missing+=(cuMemcpyBatchAsync_v2)
  expected=$(printf '%s\n' "${missing[@]}" | sort | paste -sd' ')
  name="driver $version has all functions of symbols.h except: ${expected:-none}"
  found=$(lacking "$1")
  if [ "$found" = "$expected" ]; then
    pass "$name"
  else
    fail "$name; it lacks: ${found:-none}"
  fi

  name="driver $version is opened"
  report=$(DLX_CUDA_LIBRARY=$1 "$work/dlx" devices 2>&1)
  if answer=$(grep -oE 'cuInit: .*CUDA_ERROR_[A-Z_]+|DEVICE cuda:[0-9]+ .*' <<<"$report"); then
    pass "$name: $answer"
  else
    fail "$name" "$report"
  fi

  # Without a card every experiment says so; with one, these two have results.
  name="driver $version lets firstsession say what it finds"
  if report=$(DLX_CUDA_LIBRARY=$1 "$work/firstsession" -experiment devices -experiment pointers "$work/first-session.json" 2>&1) &&
    answer=$(grep -E '^(skipped .*pointers .*CUDA_ERROR_[A-Z_]+|done .*pointers)' <<<"$report"); then
    pass "$name: $(tr -s ' ' <<<"$answer")"
  else
    fail "$name" "$report"
  fi
}

for folder in "$1"/*/; do
  if [ -f "$folder/why" ]; then
    echo "skipped: the driver of $(basename "$folder"): $(cat "$folder/why")"
    count "0 0 1"
  else
    test_driver "$(realpath "$folder"libcuda.so.*)"
  fi
done
IFS=: read -ra paths <<<"${DLX_CUDA_DRIVERS:-}"
for path in "${paths[@]}"; do
  test_driver "$(realpath "$path")"
done
[ "$failures" = 0 ]
