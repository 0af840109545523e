#!/usr/bin/env bash
# Installs what dlx is measured beside, and measures: make bench-peers. benchmarks/lab/peers has the adapters.
#
#   peers.sh [FLAG...]      the flags of benchmarks/lab/peers, such as -peer clpeak or -short
#   peers.sh share          measures dlx.share beside what else passes memory to another process: make bench-share
#
# As root with apt-get it installs Debian's packages. Packages of Python go into .venv-peers. What cannot be installed is
# a row of the results, with the reason. TAGS are the backends of dlx, and DRIVERS a command that chooses their drivers.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=$PWD/.venv-peers
tags=$(tr , '\n' <<<"${TAGS-$(scripts/tags.sh)}" | grep -xE 'vulkan|opencl|cuda|ucx' | paste -sd ,) || true

# Without the package an adapter says that it is missing.
packages=()
needs=(clpeak:clpeak clinfo:clinfo ucx_perftest:ucx-utils)
if [ "${1-}" = share ]; then needs=(); fi
for need in "${needs[@]}"; do
  command -v "${need%%:*}" >/dev/null || packages+=("${need#*:}")
done
if [ "${#packages[@]}" != 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || true
  for package in "${packages[@]}"; do
    apt-get install -qq -y --no-install-recommends "$package" || echo "Debian's package $package cannot be installed here" >&2
  done
fi

# PyTorch of PyPI is built for CUDA: benchmarks/lab/frameworks/fake_cuda.py makes fakes of the libraries that it does not need on the CPU.
install_python() {
  local torch=requirements-interop-torch.txt sum
  sum=$(cat requirements-peers.txt $torch benchmarks/lab/frameworks/fake_cuda.py | sha256sum)
  [ "$(cat "$venv/installed" 2>/dev/null)" != "$sum" ] || return 0
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --no-cache-dir --requirement requirements-peers.txt &&
    "$venv/bin/python" -m pip install --quiet --no-cache-dir --no-compile --no-deps --requirement $torch &&
    "$venv/bin/python" benchmarks/lab/frameworks/fake_cuda.py >/dev/null &&
    echo "$sum" >"$venv/installed"
}
if [ "$(uname -sm)" = "Linux x86_64" ] && "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'; then
  install_python || echo "some packages of Python cannot be installed here: see the rows of the results" >&2
else
  echo "the packages of Python are pinned for Python 3.11 to 3.13 on linux/amd64; this is $("$python" --version) on $(uname -sm)" >&2
fi

if [ "${1-}" = share ]; then
  DLX_TAGS='' "$venv/bin/python" -m pip install --quiet --no-deps --force-reinstall ./python # memory of the host only
  if command -v cargo >/dev/null; then
    CARGO_TARGET_DIR=$PWD/.cache/iceoryx2 cargo build --quiet --release --locked --manifest-path benchmarks/lab/share/iceoryx2/Cargo.toml ||
      echo "iceoryx2 in Rust cannot be built here" >&2
  fi
  kind=$(uname -sm | tr 'A-Z ' 'a-z-')-$(nproc)cpu
  exec "$venv/bin/python" benchmarks/lab/share/share.py "benchmarks/results/share-$kind.json" benchmarks/lab/share.md
fi

go build -buildvcs=true -tags "$tags" -o .cache/bench-peers ./benchmarks/lab/peers
# With 1 GiB PoCL lets clpeak allocate 128 MiB, which takes seconds; half a gigabyte takes a minute.
export POCL_MEMORY_LIMIT=${POCL_MEMORY_LIMIT:-1}
exec ${DRIVERS-scripts/software-drivers.sh} .cache/bench-peers "$@"
