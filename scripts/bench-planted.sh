#!/usr/bin/env bash
# Finds out which losses `dlx bench --against` finds on this machine. Two copies of one program measure some cases by turns, and
# the first does 10 % more in half of them. Prints what was called slower, and writes the report to
# benchmarks/results/planted-SYSTEM.json.
#
#   scripts/software-drivers.sh scripts/bench-planted.sh [FLAG of dlx bench]...
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
planted=(dlpack/import-delete core/slice memory/alloc/4KiB memory/alloc/1MiB stream/cross-wait copy/contiguous/64KiB copy/contiguous/1MiB
  device_local_copy/vulkan:0 latency/host_to_device/vulkan:0/4KiB alloc/pool/vulkan:0/4KiB)
others=(dlpack/export-delete dlpack/round-trip memory/alloc/64KiB stream/timeline copy/contiguous/256KiB alloc/pool/opencl:0/4KiB
  device_to_host_memcpy_ce/vulkan:0 host_to_device_memcpy_ce/vulkan:0/pageable latency/host_to_device/vulkan:0/64KiB handoff/vulkan:0/cpu)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -tags "${DLX_TAGS:-vulkan,opencl}" -o "$work/built" ./cmd/dlx
cp "$work/built" "$work/slowed" # both by cp: see benchmarks/README.md, "Comparing two programs"
cp "$work/built" "$work/other"
flags=()
for c in "${planted[@]}"; do flags+=(-t "$c" --slow-down "$c=10%"); done
for c in "${others[@]}"; do flags+=(-t "$c"); done

code=0
(cd "$work" && ./slowed bench "${flags[@]}" --against ./other --json-file report.json "$@") || code=$?
# 1 says that cases were slower, or that something failed.
if [ "$code" -gt 1 ] || [ ! -s "$work/report.json" ]; then exit "$code"; fi

"$python" - "$work/report.json" "${planted[@]}" <<'EOF'
import json, sys

report = json.load(open(sys.argv[1]))["result"]
if report.get("interrupted"):
    sys.exit("interrupted: no result is kept")
cases = report["cases"]
changed = [c for c in cases if c.get("change", {}).get("rounds")]
ours = [c for c in changed if c["name"] in sys.argv[2:]]
rest = [c for c in changed if c["name"] not in sys.argv[2:]]
found = [c for c in ours if c["change"].get("slower")]
wrong = [c["name"] for c in rest if c["change"]["significant"]]
print(f"\n{len(found)} of {len(ours)} losses of 10 % were found, {len(wrong)} of {len(rest)} other cases were called different:", *wrong)
for c in ours:
    h = c["change"]
    print(f"  {c['name']:40} {h['old_to_new']:.3f} times as fast (1/1.1 = 0.909), p = {h['p']:.1e}, {len(h['rounds'])} rounds")
EOF
mv "$work/report.json" "benchmarks/results/planted-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)-$(getconf _NPROCESSORS_ONLN)cpu.json"
