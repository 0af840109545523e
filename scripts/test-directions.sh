#!/usr/bin/env bash
# Tests that the depguard rules of .golangci.yml refuse forbidden imports. The linter (the first argument) must report
# every import of a module that has only forbidden ones.
set -euo pipefail
cd "$(dirname "$0")/.."

# The importer and the imported package; "test" means a test file. There must be no cycle, or the module cannot be loaded.
forbidden=(
  "core                 github.com/spf13/cobra"
  "core                 backends/cpu"
  "core                 backends/backendkit"
  "core                 core/dlpack"
  "core                 stream"
  "core/internal/abi    core"
  "core/float           core"
  "core/typecode        core"
  "core/dlpack          stream"
  "core/coretest        stream"
  "stream               backends/cpu"
  "exchange             backends/cpu"
  "exchange             backends/backendkit"
  "exchange             backends/opencl      test"
  "exchange             share"
  "remote               share"
  "remote/internal/ucx  exchange"
  "share                backends/cpu"
  "share                tensorfile"
  "share                backends/vulkan      test"
  "tensorfile           stream"
  "backends/cuda        exchange"
  "backends/cuda        internal/testing/gpusim"
  "backends/cuda        internal/private"
  "internal/private     core"
  "backends/vulkan      exchange             test"
  "backends/a/new/one   exchange"
  "backends/internal/a/new/one  exchange"
  "backends/gl          exchange"
  "interop/gl           backends/vulkan"
  "interop/gl           exchange"
  "interop/onnxruntime  exchange"
  "interop/pjrt         backends/cuda"
  "interop/ffmpeg       backends/cuda"
  "interop/opencv       exchange"
  "interop/arrow        backends/cuda"
  "interop/gonum        exchange"
  "interop/image        golang.org/x/sys/unix"
  "interop/otel         backends/cuda"
  "interop/triton       backends/cuda"
  "interop/flight       exchange"
  "metrics              stream"
  "core                 metrics"
  "backends/internal/blockpool  stream"
  "backends/internal/hostcopy   stream"
  "backends/internal/cudalike   gorgonia.org/cu"
  "backends/internal/dl         stream"
  "backends/internal/external   stream"
  "backends/internal/gpucopy    backends/internal/dl"
  "backends/internal/gpuconvert backends/internal/dl"
  "backends/internal/reaper     stream"
  "backends/internal/microsleep core"
  "backends/internal/relay      stream"
  "backends/internal/devicebase backends/internal/dl"
  "backends/internal/copyplan   backends/internal/gpucopy"
  "backends/internal/unbuilt    stream"
  "backends/backendkit  stream"
  "backends/backendtest backends/cpu"
  "internal/atomicfile  core"
  "internal/testing/gpusim      benchmarks"
  "internal/testing/gpusim      backends/all         test"
  "internal/doctor      exchange"
  "internal/inventory   exchange"
  "internal/live        core"
  "internal/memfault    core"
  "internal/parallel    core"
  "internal/testing/soak        backends/opencl"
  "internal/staging     core"
  "a/new/folder         core"
)

linter=$(realpath "$1")
module=$(go list -m)
fixture=$(mktemp -d)
trap 'rm -rf "$fixture"' EXIT
cp go.mod go.sum .golangci.yml "$fixture"
cd "$fixture"

expected=()
for i in "${!forbidden[@]}"; do
  read -r importer imported test <<<"${forbidden[i]}"
  if [[ $imported != *.* ]]; then # a package of ours
    mkdir -p "$imported"
    echo "package ${imported##*/}" >"$imported/doc.go"
    imported=$module/$imported
  fi
  mkdir -p "$importer"
  file=$importer/import$i${test:+_test}.go
  printf 'package %s\n\nimport _ "%s"\n' "${importer##*/}" "$imported" >"$file"
  expected+=("$file:3:8: import '$imported' is not allowed")
done

report=$("$linter" run --enable-only depguard ./... 2>&1) && echo "the linter found nothing"

refused=0
for line in "${expected[@]}"; do
  if grep -qF "$line" <<<"$report"; then
    refused=$((refused + 1))
  else
    echo "not reported: $line"
  fi
done
total=${#expected[@]}
[ "$refused" = "$total" ] || printf '%s\n' "$report"

echo "$refused of $total forbidden imports are refused"
echo "$refused $((total - refused)) 0" >>"${DLX_COUNTS:-/dev/null}"
[ "$refused" = "$total" ]
