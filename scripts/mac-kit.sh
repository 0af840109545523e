#!/usr/bin/env bash
# Builds the kit that tests dlx on a Mac, without Go and without a compiler: programs, test programs and run.sh, for
# Apple silicon and for Intel. It is in the folder mac-kit of the folder that the argument names, or of dist, and packed
# beside it. It is built on any system: the backend for Metal needs no cgo. Go's linker signs the programs for Apple
# silicon ad hoc, since macOS runs no others.
set -euo pipefail
cd "$(dirname "$0")/.."
kit=${1:-dist}/mac-kit
export GOOS=darwin CGO_ENABLED=0
flags=(-tags metal -ldflags "-s -w")

rm -rf "$kit" "$kit.tar.gz"
for arch in arm64 amd64; do
  export GOARCH=$arch
  bin=$kit/bin/$arch
  mkdir -p "$bin"
  go build "${flags[@]}" -buildvcs=true -o "$bin/" ./cmd/dlx
  go test -c "${flags[@]}" -o "$bin/binding.test" ./backends/metal/internal/objc
  go test -c "${flags[@]}" -o "$bin/metal.test" ./backends/metal
done
cp scripts/mac-kit-run.sh "$kit/run.sh"
cp testdata/digits.npy "$kit"

tar -C "$(dirname "$kit")" -czf "$kit.tar.gz" mac-kit
echo "$kit: $(du -sm "$kit" | cut -f1) MiB, packed $(du -sm "$kit.tar.gz" | cut -f1) MiB; it needs macOS 12 or newer"
