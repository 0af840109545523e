#!/usr/bin/env bash
# Sees to what Go alone does not bring: a C compiler with its headers, and a Python that can make a
# virtual environment. Installs what is missing as root with apt-get, or else says what to install.
set -euo pipefail
python=${PYTHON:-python3}

has_compiler() {
  # shellcheck disable=SC2046 # go env CC may carry flags
  printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | $(go env CC) -x c - -o /dev/null 2>/dev/null
}
has_python() {
  "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null
}

missing=()
has_compiler || missing+=(gcc libc6-dev)
has_python || missing+=(python3 python3-venv)
[ "${#missing[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends "${missing[@]}"
fi

# Installed is not yet usable: an old Python stays an old Python.
status=0
has_compiler || { echo "missing: a C compiler with the C library's headers (Debian: gcc libc6-dev)" >&2; status=1; }
has_python || { echo "missing: $python 3.10 or newer with venv and ensurepip (Debian: python3 python3-venv)" >&2; status=1; }
exit "$status"
