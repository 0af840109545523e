#!/usr/bin/env bash
# Fetches SwiftShader, a Vulkan driver for the CPU, into a folder, for DLX_VULKAN_DRIVER=swiftshader of
# scripts/software-drivers.sh: its library and its manifest, out of an npm package of an exact version, whose checksum is
# verified. Nothing else of the package is kept, and nothing of it is run. If it cannot be had, the folder has a file
# "why" with the reason. What is there is not fetched again.
set -euo pipefail

package=@sparticuz/chromium@147.0.0
sha512=e1929e01041af2ea769adebbe6a4a2b73b4b75b42b95ff0129d0b99da79aa7ee4cbf5395d4e94974fa14f84242fe9e6c414254426378afeab9f8485a68e507a5

mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ "$(cat "$folder/ready" 2>/dev/null)" != "$package" ] || exit 0
rm -rf "${folder:?}"/*

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# fetch gets the files. If it cannot, it prints the reason.
fetch() {
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "the package has SwiftShader for linux/amd64 only"; return 1; }
  for command in npm node; do
    command -v $command >/dev/null || { echo "there is no $command (Debian: npm)"; return 1; }
  done
  npm pack --loglevel error --ignore-scripts "$package" >output 2>&1 || { echo "npm pack $package: $(tail -n 1 output)"; return 1; }
  echo "$sha512  $(echo ./*.tgz)" | sha512sum --check --status || { echo "$package has another checksum"; return 1; }
  # Unpacked by node, since few systems have a brotli.
  tar xzf ./*.tgz package/bin/swiftshader.tar.br &&
    node -e 'process.stdout.write(require("zlib").brotliDecompressSync(require("fs").readFileSync(0)))' \
      <package/bin/swiftshader.tar.br | tar x --no-same-owner libvk_swiftshader.so vk_swiftshader_icd.json ||
    { echo "$package cannot be unpacked"; return 1; }
  mv libvk_swiftshader.so vk_swiftshader_icd.json "$folder" || { echo "$package cannot be copied"; return 1; }
  echo "$package" >"$folder/ready"
}

fetch >why || mv why "$folder"
