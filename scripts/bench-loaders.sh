#!/usr/bin/env bash
# Measures dlx load beside the loaders of other projects: see benchmarks/lab/loaders. Their packages are installed into
# .venv-loaders, PyTorch without the libraries of CUDA, as for make test-interop. Writes
# benchmarks/results/loaders-KIND.json.
#
#   bench-loaders.sh [FLAG...]     flags of the program, such as --rounds 3 --large-tensor 128MiB
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=$PWD/.venv-loaders
flags=()
if [ "$(uname -sm)" = "Linux x86_64" ] && "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'; then
  sum=$(cat requirements-loaders.txt requirements-interop-torch.txt benchmarks/lab/frameworks/fake_cuda.py | sha256sum)
  if [ "$(cat "$venv/installed" 2>/dev/null)" != "$sum" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --no-cache-dir --no-compile --no-deps --requirement requirements-interop-torch.txt
    "$venv/bin/python" benchmarks/lab/frameworks/fake_cuda.py
    "$venv/bin/python" -m pip install --quiet --no-cache-dir --no-compile --no-deps --requirement requirements-loaders.txt
    echo "$sum" >"$venv/installed"
  fi
  flags+=(--python "$venv/bin/python")
else
  echo "the other loaders' packages are pinned for Python 3.11 to 3.13 on linux/amd64: they are not measured" >&2
fi
kind=$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)-$(getconf _NPROCESSORS_ONLN)cpu
go build -tags "${DLX_TAGS:-}" -o .cache/loaders ./benchmarks/lab/loaders
exec .cache/loaders "${flags[@]}" --out "benchmarks/results/loaders-$kind.json" "$@"
