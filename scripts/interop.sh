#!/usr/bin/env bash
# Proves that Python's frameworks and dlx exchange tensors. benchmarks/lab/frameworks has the cases.
#
#   interop.sh quick     the frameworks of requirements-interop.txt: the table, compared with docs/interop.json, and the tests
#   interop.sh full      all frameworks, with requirements-interop-full.txt and -mxnet.txt, and those of their own tests
#                        that must be fetched; writes docs/interop.json and .md
#   interop.sh dpnp      dpnp, with the tag oneapi: tests of its arrays; "dpnp FILE" also adds the results to a table such as docs/interop.json
#   interop.sh bench     measures, and writes benchmarks/results/interop-KIND.json and docs/interop-speed.md
#
# Packages are installed into .venv-interop and .venv-interop-mxnet, dlx with the backends in DLX_TAGS (cuda, which the
# simulated driver serves). make sets DLX_CUDA_LIBRARY to that driver.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/counting.sh
mode=$1
python=${PYTHON:-python3}
venv=$PWD/.venv-interop
native=$PWD/.cache/interop

if [ "$(uname -sm)" != "Linux x86_64" ] || ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'; then
  echo "skipped: the frameworks' packages are pinned for Python 3.11 to 3.13 on linux/amd64; this is $("$python" --version) on $(uname -sm)"
  count "0 0 1"
  exit 0
fi

# install_into FOLDER REQUIREMENTS... installs into an environment, once until the requirements change.
install_into() {
  local folder=$1 sum
  shift
  sum=$(cat "$@" benchmarks/lab/frameworks/fake_cuda.py | sha256sum)
  [ "$(cat "$folder/$1.installed" 2>/dev/null)" = "$sum" ] && return
  [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
  for file in "$@"; do
    # PyTorch's dependencies are libraries of CUDA: see fake_cuda.py.
    if [[ $file = *torch* ]]; then
      "$folder/bin/python" -m pip install --quiet --no-cache-dir --no-compile --no-deps --requirement "$file"
      "$folder/bin/python" benchmarks/lab/frameworks/fake_cuda.py
    else
      "$folder/bin/python" -m pip install --quiet --no-cache-dir --no-compile --requirement "$file"
    fi
  done
  echo "$sum" >"$folder/$1.installed"
}

# dpnp has an environment and a build of dlx of its own, and Intel's OpenCL for the processor. The copies of libraries in
# the wheels become links.
if [ "$mode" = dpnp ]; then
  venv=$venv-dpnp
  install_into "$venv" requirements-interop-dpnp.txt
  for file in "$venv"/lib/lib*.so.*; do
    for twin in "${file%.so.*}.so" "${file%.so.*}".so.*; do
      if [ "$twin" != "$file" ] && [ ! -L "$twin" ] && [ ! -L "$file" ] && cmp -s "$file" "$twin"; then ln -sfn "${file##*/}" "$twin"; fi
    done
  done
  mkdir -p "$native/vendors"
  echo "$venv/lib/libintelocl.so" >"$native/vendors/intel.icd"
  export OCL_ICD_VENDORS=$native/vendors DLX_TAGS=oneapi PYTHONDONTWRITEBYTECODE=1
  "$venv/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$native/wheel-oneapi" ./python
  "$venv/bin/python" -m pip install --quiet --no-deps --no-index --force-reinstall "$native"/wheel-oneapi/dlx-*.whl
  export PYTHONPATH=$PWD/benchmarks/lab/frameworks
  [ $# = 1 ] || "$venv/bin/python" benchmarks/lab/frameworks/oneapi.py "$2"
  exec "$venv/bin/python" -m pytest -q -rsx -p no:cacheprovider benchmarks/lab/frameworks/tests/test_dpnp.py
fi
install_into "$venv" requirements-interop.txt requirements-interop-torch.txt
if [ "$mode" = full ]; then
  install_into "$venv" requirements-interop-full.txt
  install_into "$venv-mxnet" requirements-interop-mxnet.txt
fi

# One build of dlx for all environments.
rm -rf "$native/wheel"
"$venv/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$native/wheel" ./python
for folder in "$venv" "$venv-mxnet"; do
  [ ! -x "$folder/bin/python" ] ||
    "$folder/bin/python" -m pip install --quiet --no-deps --no-index --force-reinstall "$native"/wheel/dlx-*.whl
done
"$venv/bin/python" benchmarks/lab/frameworks/native/build.py "$native"

export PYTHONPATH=$PWD/benchmarks/lab/frameworks:$native PYTHONDONTWRITEBYTECODE=1
case $mode in
quick)
  status=0
  "$venv/bin/python" benchmarks/lab/frameworks/table.py --quick --out "$native/interop.json" --against docs/interop.json || status=1
  "$venv/bin/python" -m pytest -q -rsx -p no:cacheprovider benchmarks/lab/frameworks/tests || status=1
  exit $status
  ;;
full)
  status=0
  "$venv/bin/python" benchmarks/lab/frameworks/table.py --out "$native/interop.json" --against docs/interop.json || status=1
  "$venv/bin/python" -m suites "$native/interop.json" || status=1
  [ -z "${DLX_TAGS:-}" ] || "$venv/bin/python" benchmarks/lab/frameworks/simulated.py "$native/interop.json" || status=1
  scripts/interop.sh dpnp "$native/interop.json" || status=1
  cp "$native/interop.json" docs/interop.json
  "$venv/bin/python" benchmarks/lab/frameworks/render.py docs/interop.json docs/interop.md
  "$venv/bin/python" -m pytest -q -rsx -p no:cacheprovider benchmarks/lab/frameworks/tests || status=1
  exit $status
  ;;
bench)
  kind=$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)-$(getconf _NPROCESSORS_ONLN)cpu
  "$venv/bin/python" benchmarks/lab/frameworks/bench.py "benchmarks/results/interop-$kind.json" docs/interop-speed.md
  ;;
*)
  echo "usage: interop.sh quick|full|bench" >&2
  exit 2
  ;;
esac
