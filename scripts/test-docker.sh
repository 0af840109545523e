#!/usr/bin/env bash
# Checks the files of docker: hadolint reads the Dockerfile, the compose files and the Kubernetes example agree with their
# schemas, and each image has the packages that the tags of its program need. The first argument is the folder of the
# tools (requirements-docker.txt). Nothing is built.
set -uo pipefail
cd "$(dirname "$0")/.."
tools=$(cd "$1" && pwd)/bin
. scripts/counting.sh

# check runs a command under a name.
check() {
  if why=$("${@:2}" 2>&1); then pass "$1"; else fail "$1: $why"; fi
}

check "hadolint finds nothing" "$tools/hadolint" --config docker/hadolint.yaml docker/Dockerfile
check "the compose files have the schema" "$tools/check-jsonschema" --builtin-schema vendor.compose-spec docker/compose*.yaml
check "the example for Kubernetes has the schema" "$tools/kubernetes-validate" --strict docker/kubernetes.yaml
check "the example of two containers for Kubernetes has the schema" "$tools/kubernetes-validate" --strict docker/kubernetes-share.yaml

# stage prints the lines of a stage of the Dockerfile, each command on one line.
stage() {
  sed -e ':a' -e '/\\$/N; s/\\\n//; ta' docker/Dockerfile | awk -v name="$1" '/^FROM/ { on = ($NF == name) } on'
}
# needs prints the packages that a tag needs to run. CUDA's driver is mounted.
needs() {
  case $1 in
  vulkan) echo libvulkan1 ;;
  oneapi | opencl) echo ocl-icd-libopencl1 ;;
  gl) echo libegl1 ;;
  rocm) echo libamdhip64-5 ;;
  cuda) echo libx11-6 libxext6 ;;
  ucx) echo libucx0 ;;
  webgpu) echo libwgpu_native.so ;;
  *) echo "no-package-is-known-for-$1" ;;
  esac
}
# has_packages is true if an image has the packages of its program's tags.
has_packages() {
  tags=$(stage "build-$1" | sed -n 's/^ARG TAGS=//p')
  [ "$1" = cpu ] || [ -n "$tags" ] || { echo "build-$1 has no tags"; return 1; }
  for tag in ${tags//,/ }; do
    [[ $tag = cuda ]] && ! stage "$1" | grep -q 'NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics' && { echo "no capabilities"; return 1; }
    for package in $(needs "$tag"); do
      stage "$1" | grep -qw -- "$package" || { echo "no $package for the tag $tag"; return 1; }
    done
  done
  ! stage "$1" | grep '^USER' | tail -n 1 | grep -qw 0 || { echo "it ends as root"; return 1; }
}
for image in cpu cuda rocm all; do
  check "the image $image has what its tags need" has_packages $image
done

name="all has every tag that can run on Linux"
if [ "$(stage build-all | sed -n 's/^ARG TAGS=//p')" = "$(scripts/tags.sh | tr , '\n' | grep -vx metal | sort | paste -sd ,)" ]; then
  pass "$name"
else
  fail "$name: $(scripts/tags.sh)"
fi
check "Prometheus asks the address that dlx listens on" \
  sh -c "grep -q 'dlx:9464' docker/prometheus.yml && grep -q '0.0.0.0:9464' docker/compose.yaml"
[ "$failures" = 0 ]
