#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into .venv-python, and runs its tests: with the Python that makes
# the environment, all of them; with every other CPython from 3.10 on that is found, the short ones. The wheel of 3.11
# is installed into later versions as it is.
#
#   scripts/test-python.sh            PYTHON names the interpreter, DLX_TAGS the backends
#   scripts/test-python.sh quick      only the Python that makes the environment, without sanitizers and with less to repeat
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
work=$PWD/.venv-python
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH

# others prints the other interpreters: those of pyenv and of PATH, one of each version.
others() {
  local this; this=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  for version in 3.10 3.11 3.12 3.13 3.14; do
    [ "$version" = "$this" ] && continue
    for found in "$(command -v "python$version" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
      if [ -n "$found" ] && "$found" -c 'import ensurepip, venv' 2>/dev/null; then echo "$found"; break; fi
    done
  done
}

# environment makes a virtual environment with the packages of the tests.
environment() {
  [ -f "$2/ready" ] && [ "$2/ready" -nt python/requirements.txt ] && return
  rm -rf "$2"
  "$1" -m venv "$2"
  "$2/bin/python" -m pip install --quiet --requirement python/requirements.txt
  touch "$2/ready"
}

# counts appends what pytest reports to DLX_COUNTS.
counts() {
  local report=$1
  "$work/main/bin/python" - "$report" <<'PY' | tee -a "${DLX_COUNTS:-/dev/null}"
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
total, failed, skipped = (int(suite.get(k)) for k in ("tests", "failures", "skipped"))
failed += int(suite.get("errors"))
print(total - failed - skipped, failed, skipped)
PY
}

status=0
# run_tests runs the tests of the installed package, not of the sources. REPORT is where pytest's report is kept.
run_tests() {
  local venv=$1 report=${REPORT:-$1/report.xml}; shift
  rm -f "$report" # that of an earlier run, if Python ends before it writes one
  ( cd python/tests && "$venv/bin/python" -m pytest -c ../pyproject.toml --rootdir . -p no:cacheprovider \
      --junitxml "$report" "$@" . ) || status=1
  counts "$report"
}

environment "$python" "$work/main"
rm -rf "$work/wheels"
"$work/main/bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$work/wheels" ./python
wheel=$(echo "$work"/wheels/*.whl)
"$work/main/bin/python" -m auditwheel show "$wheel"
PATH=$work/main/bin:$PATH "$work/main/bin/python" -m auditwheel repair --wheel-dir "$work/wheels/repaired" "$wheel"
repaired=$(echo "$work"/wheels/repaired/*.whl)
"$work/main/bin/python" -m pip install --quiet --force-reinstall --no-deps "$repaired"
( cd python/tests && "$work/main/bin/python" -m mypy --config-file ../pyproject.toml test_typing.py ) || status=1
( cd "$work" && "$work/main/bin/python" -m mypy --config-file ../python/pyproject.toml -p dlx ) || status=1
if [ "${1:-}" = quick ]; then
  export DLX_TRIPS=5000 DLX_HOSTILE=2000 DLX_RANDOM_STEPS=50000
  # Two halves that take about as long, at the same time, since each uses one processor. Every file is in one of them,
  # since all are called test_*.
  ( REPORT=$work/first.xml run_tests "$work/main" --ignore-glob 'test_[s-z]*'; exit $status ) >"$work/first.log" 2>&1 &
  trap 'cat "$work/first.log"' EXIT
  run_tests "$work/main" --ignore-glob 'test_[!s-z]*' || status=1
  wait $! || status=1
  exit $status
fi
DLX_RANDOM_STEPS=1000000 run_tests "$work/main"
"$work/main/bin/python" scripts/share-pairs.py --check || status=1
"$work/main/bin/python" scripts/remote-pairs.py --check || status=1

installed=$("$work/main/bin/python" -c 'import dlx, os; print(os.path.dirname(dlx.__file__))')
asan=$(cc -print-file-name=libasan.so) ubsan=$(cc -print-file-name=libubsan.so)
# run_sanitized runs the tests of the C code with the extension under AddressSanitizer and UndefinedBehaviorSanitizer,
# which end the process at the first error. Leaks are counted by the tests themselves.
run_sanitized() {
  local folder=$work/sanitized includes limited
  echo "-- sanitizers"
  if ! [ -f "$asan" ] || ! [ -f "$ubsan" ]; then
    echo "skipped: the C compiler has no sanitizers of GCC"
    echo "0 0 1" | tee -a "${DLX_COUNTS:-/dev/null}"
    return
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  cp -r "$installed" "$folder/dlx"
  rm "$folder"/dlx/_C.*so
  includes=$("$work/main/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  limited=$([[ $wheel = *abi3* ]] && echo -DPy_LIMITED_API=0x030B0000 || true)
  # shellcheck disable=SC2086
  cc -std=c11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
    -fvisibility=hidden -shared -fPIC -D_GNU_SOURCE $limited -Ipython/src/ext -Icmd/libdlx "-I$includes" \
    python/src/ext/*.c -o "$folder/dlx/_C.abi3.so" -ldl -lpthread
  # Without capture, since the report of an error goes to standard error.
  ( cd python/tests
    PYTHONPATH=$folder PYTHONMALLOC=malloc DLX_TRIPS=2000 DLX_HOSTILE=5000 LD_PRELOAD="$asan $ubsan" \
      ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
      "$work/main/bin/python" -m pytest -c ../pyproject.toml --rootdir . -p no:cacheprovider -s \
      --junitxml "$folder/report.xml" -k "not text_is_numpys and not deleter_after and not command and not readme" . ) ||
    status=1
  counts "$folder/report.xml"
}
run_sanitized

for other in $(others); do
  name=$("$other" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  echo "-- CPython $name"
  environment "$other" "$work/$name"
  if [[ $repaired = *abi3* ]] && [ "$name" != 3.10 ]; then
    "$work/$name/bin/python" -m pip install --quiet --force-reinstall --no-deps "$repaired"
  else
    # Only the extension differs between the versions of CPython.
    DLX_BUILT=$installed "$work/$name/bin/python" -m pip install --quiet --force-reinstall --no-deps ./python
  fi
  DLX_TRIPS=20000 run_tests "$work/$name" -k "not text_is_numpys and not random_views"
done
exit $status
