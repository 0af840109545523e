# shellcheck shell=bash
# For scripts that fetch packages of Debian without installing them: source it. apt's own lists do not change: apt-get
# gets lists of its own, of the archive that the machine's lists name.

# debian_archive prepares apt-get in a folder for releases of Debian, each written RELEASE/COMPONENT. If it cannot, it
# prints the reason. It sets APT_CONFIG, so it must not be called in a subshell.
debian_archive() {
  local work=$1 keys=/usr/share/keyrings/debian-archive-keyring.gpg archive command release
  shift
  for command in apt-get dpkg-deb; do
    command -v $command >/dev/null || { echo "there is no $command"; return 1; }
  done
  # Without apt's lists, which a new machine lacks, only the name of the release tells Debian from other systems.
  # APT_CONFIG may be that of an earlier call.
  archive=$(env -u APT_CONFIG apt-get indextargets --no-release-info --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' "Created-By: Packages" |
    awk '$1 == "main" && $2 ~ /^(bookworm|trixie|forky|sid|stable|testing|unstable)$/ && !found++ { print $3 }')
  [ -n "$archive" ] || { echo "apt-get knows no archive of Debian"; return 1; }
  mkdir -p "$work"/{lists/partial,cache/archives/partial,sources}
  for release in "$@"; do
    echo "deb [signed-by=$keys] $archive ${release%/*} ${release#*/}"
  done >"$work/sources/releases.list"
  cat >"$work/apt.conf" <<EOF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/sources";
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
APT::Sandbox::User "";
Acquire::Retries "2";
EOF
  export APT_CONFIG=$work/apt.conf
  apt-get update -qq >"$work/output" 2>&1 || { tail -n 1 "$work/output"; return 1; }
}

# debian_unpack fetches a package, written PACKAGE/RELEASE or PACKAGE=VERSION, and unpacks it into a new folder. If it
# cannot, it prints the reason.
debian_unpack() {
  local folder=$2
  mkdir "$folder"
  (cd "$folder" && apt-get download -qq "$1") >"$folder.output" 2>&1 || { tail -n 1 "$folder.output"; return 1; }
  dpkg-deb -x "$folder"/*.deb "$folder" >"$folder.output" 2>&1 || { tail -n 1 "$folder.output"; return 1; }
}
