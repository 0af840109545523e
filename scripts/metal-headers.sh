#!/usr/bin/env bash
# Fetches what carries Apple's headers into a folder: metal-cpp, which Apple publishes, from the wheel of a Python package
# (requirements-metal.txt); and the Rust crates of objc2, which are made from Apple's SDK (tools/metal-headers), if there
# is a cargo of 1.68 or newer. Nothing of it is built or run: a test of backends/metal/internal/objc reads it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
rm -rf "$folder"
mkdir -p "$folder"

"${DLX_PYTHON:-python3}" -m pip download --quiet --no-deps --only-binary :all: --platform macosx_14_0_arm64 \
  --requirement requirements-metal.txt --dest "$folder"
"${DLX_PYTHON:-python3}" - "$folder" <<'PYTHON'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as z:
    for name in z.namelist():
        before, found, path = name.partition("/metal_cpp/")
        if found and name.endswith(".hpp"):
            to = folder / "metal-cpp" / path
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(z.read(name))
wheel.unlink()
PYTHON

minor=$(cargo --version 2>/dev/null | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
if [ "${minor:-0}" -ge 68 ]; then
  cargo --quiet vendor --locked --manifest-path tools/metal-headers/Cargo.toml "$folder/crates" >/dev/null
  mv "$folder/crates" "$folder/objc2"
else
  echo "skipped: the crates of objc2 need cargo 1.68 or newer"
fi
touch "$folder/ready"
