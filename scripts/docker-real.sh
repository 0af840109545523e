#!/usr/bin/env bash
# Builds images of docker/Dockerfile without a registry, and runs them: the images to build on are bootstrapped from
# Debian's packages, with this machine's settings of apt, pip and its Go. The arguments are the images (cpu). It needs
# root, buildah and debootstrap, and minutes; so it is not one of the suites. Everything lies in a folder below TMPDIR
# (/var/tmp), which is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/var/tmp}/dlx-docker.XXXXXX")
trap 'rm -rf "$work"' EXIT
b() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Codename: bookworm' | sed -n 1p)
debootstrap --variant=minbase bookworm "$work/base" "$mirror" >"$work/log" || { tail "$work/log"; exit 1; }
# commit makes an image of a folder.
commit() {
  container=$(b from scratch)
  b add -q "$container" "$1" / >/dev/null
  b config --env "PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$container"
  b commit -q --rm "$container" "$2" >/dev/null
}
commit "$work/base" localhost/base
chroot "$work/base" apt-get install -qq -y --no-install-recommends gcc libc6-dev >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
cp -a "$(go env GOROOT)" "$work/base/usr/local/go"
commit "$work/base" localhost/go
rm -rf "$work/base"

# Modules are those that this machine has: the build asks no proxy.
mkdir -p "$work/cache"
volumes=(--volume "$(go env GOMODCACHE):/root/go/pkg/mod" --volume "$work/cache:/root/.cache/go-build" --volume /etc/apt:/etc/apt:ro)
[ ! -f /etc/pip.conf ] || volumes+=(--volume /etc/pip.conf:/etc/pip.conf:ro)
volumes+=(--volume /etc/ssl/certs:/etc/ssl/certs:ro)
for image in "${@:-cpu}"; do
  b bud --isolation chroot --format docker --target "$image" --tag "localhost/dlx:$image" "${volumes[@]}" \
    --build-arg GO_IMAGE=localhost/go --build-arg BASE_IMAGE=localhost/base --file docker/Dockerfile . >"$work/log" 2>&1 ||
    { tail -n 30 "$work/log"; exit 1; }
  container=$(b from "localhost/dlx:$image")
  echo "== $image: $(du -sm "$(b mount "$container")" | cut -f1) MiB, unpacked"
  route=cpu,cpu
  [ "$image" != all ] || route=cpu,vulkan:0,opencl:0,cpu
  b run --isolation chroot "$container" -- sh -c "id -u; dlx devices; dlx handoff digits.npy --via $route --verify"
  # The health check, as the image has it.
  mapfile -t check < <(b inspect --type image --format '{{range .Docker.Config.Healthcheck.Test}}{{println .}}{{end}}' "localhost/dlx:$image" | sed '/^$/d')
  b run --isolation chroot "$container" -- "${check[@]:1}" >/dev/null
  echo "the health check passes: ${check[*]:1}"
done
