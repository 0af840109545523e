#!/usr/bin/env bash
# Builds images of docker/Dockerfile without a registry, and runs them: the images to build on are bootstrapped from
# Debian's packages, with this machine's settings of apt and pip, its Go and its modules. The arguments are the images
# (cpu); the variable DOCKER_TAGS chooses other build tags. It needs root, buildah and debootstrap, and minutes; so it is
# not one of the suites. Everything lies in a folder below TMPDIR (/var/tmp), which is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/var/tmp}/dlx-docker.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
export TMPDIR=$work/tmp # buildah keeps the caches of a build below it
b() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
# quietly runs a command, and shows what it printed if it fails.
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }; }

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Codename: bookworm' | sed -n 1p)
base=$work/base
quietly debootstrap --variant=minbase bookworm "$base" "$mirror"
apt-config dump Acquire >"$base/etc/apt/apt.conf.d/90host"
# Like debian:bookworm-slim, it has no documentation and no translations, and gets none with other packages.
printf 'path-exclude /usr/share/%s/*\n' doc info locale man >"$base/etc/dpkg/dpkg.cfg.d/slim"
rm -rf "$base"/usr/share/{doc,info,locale,man}/* "$base"/var/lib/apt/lists/* "$base"/var/cache/apt/* "$base"/var/log/*
# commit makes an image of a folder.
commit() {
  container=$(b from scratch)
  b add -q "$container" "$1" / >/dev/null
  b config --env "PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$container"
  b commit -q --rm "$container" "$2" >/dev/null
}
commit "$base" localhost/base
quietly chroot "$base" sh -c "apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev"
cp -a "$(go env GOROOT)" "$base/usr/local/go"
# For pip, whose index may have a certificate that only this machine trusts.
[ ! -d /usr/local/share/ca-certificates ] || cp -a /usr/local/share/ca-certificates "$base/usr/local/share/"
commit "$base" localhost/go
rm -rf "$base"

# Modules are those that this machine has: the build asks no proxy for them.
quietly go mod download
volumes=(--volume "$(go env GOMODCACHE):/go/pkg/mod")
[ ! -f /etc/pip.conf ] || volumes+=(--volume /etc/pip.conf:/etc/pip.conf:ro)
for image in "${@:-cpu}"; do
  quietly b bud --isolation chroot --format docker --target "$image" --tag "localhost/dlx:$image" "${volumes[@]}" \
    ${DOCKER_TAGS:+--build-arg TAGS="$DOCKER_TAGS"} --build-arg GO_IMAGE=localhost/go --build-arg BASE_IMAGE=localhost/base \
    --ignorefile docker/Dockerfile.dockerignore --file docker/Dockerfile .
  container=$(b from "localhost/dlx:$image")
  echo "== $image: $(du -sm "$(b mount "$container")" | cut -f1) MiB, unpacked"
  # Through every driver of the image that needs no card, if the build has its tag.
  case $image in
  rocm) drivers="vulkan gl" ;;
  all) drivers="vulkan opencl gl webgpu" ;;
  *) drivers= ;;
  esac
  route=cpu
  for driver in $drivers; do
    case ,${DOCKER_TAGS:-$driver}, in *,$driver,*) route=$route,$driver:0 ;; esac
  done
  route=$route,cpu
  b run --isolation chroot "$container" -- sh -c "id -u; dlx devices; dlx move digits.npy --via $route --verify"
  # The health check, as the image has it.
  mapfile -t check < <(b inspect --type image --format '{{range .Docker.Config.Healthcheck.Test}}{{println .}}{{end}}' "localhost/dlx:$image" | sed '/^$/d')
  b run --isolation chroot "$container" -- "${check[@]:1}" >/dev/null
  echo "the health check passes: ${check[*]:1}"
done
