#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the work manager of Open Cluster Management (OCM) for the end-to-end tests,
# once per version, into a cache folder outside the source tree. The program is
# ocm-work. The folder manifests has the CRDs and cluster roles that OCM installs.
#
#   build.sh         build the program if it is missing
#   build.sh --dir   print the folder of the program, which may not exist yet
#
# SPOKEWIRE_OCM_DIR sets another folder.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export GOWORK=off

version=$(awk '$1 == "require" && $2 == "open-cluster-management.io/ocm" { print $3; exit }' "$here/go.mod")
cache=${XDG_CACHE_HOME:-${HOME:?set HOME or SPOKEWIRE_OCM_DIR}/.cache}
dir=${SPOKEWIRE_OCM_DIR:-$cache/spokewire/ocm-$version}

if [[ ${1:-} == --dir ]]; then
  echo "$dir"
  exit
fi

if [[ ! -x $dir/ocm-work ]]; then
  echo "ocm: building open-cluster-management.io/ocm/cmd/work (about 5 minutes, once)"
  mkdir -p "$dir"
  # The program is renamed when all files are complete. An interrupted build leaves
  # only a hidden folder, which the trap removes.
  tmp=$(mktemp -d "$dir/.build.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 130' INT TERM
  cd "$here"
  nice go build -ldflags "-s -w" -o "$tmp/ocm-work" open-cluster-management.io/ocm/cmd/work
  cp -r "$(go list -m -f '{{.Dir}}' open-cluster-management.io/ocm)/manifests/cluster-manager/hub" "$tmp/manifests"
  chmod -R u+w "$tmp/manifests" # the module cache is read-only
  rm -rf "$dir/manifests"
  mv "$tmp/manifests" "$tmp/ocm-work" "$dir/"
fi
echo "ocm: ocm-work $version is in $dir"
