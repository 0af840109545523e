#!/usr/bin/env bash
# Makes the experiments of the first session on a card, within 10 minutes. It is first-session.sh of the kit that
# make gpu-kit builds.
#
#   ./first-session.sh OUT [FLAG...]          FLAG: of bin/firstsession, such as -experiment host_import
#
# OUT, a folder, gets first-session.json, which has a result or a reason for each experiment and is written again after
# each one; first-session.json.log, all that the experiments print; and nvidia-smi.txt. bin/firstsession -list says what
# the experiments are. PyTorch is measured if $DLX_PYTHON (python3 by default) has it. The exit status is 0 if no
# experiment failed, crashed or was killed.
set -uo pipefail
[ $# != 0 ] || { echo "usage: $0 OUT [FLAG...]" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
shift
kit=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
. "$kit/drivers.sh"
[ ${#brought[@]} = 0 ] || echo "the kit brings: ${brought[*]}"

flags=(-script "$kit/first_session_torch.py")
python=$(command -v "${DLX_PYTHON:-python3}") && flags+=(-python "$python")
if command -v nvidia-smi >/dev/null; then
  timeout 30 nvidia-smi -q >"$out/nvidia-smi.txt" 2>&1
else
  echo "there is no nvidia-smi here" | tee "$out/nvidia-smi.txt"
fi
"$kit/bin/firstsession" "${flags[@]}" "$@" "$out/first-session.json"
