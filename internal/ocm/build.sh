#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds programs of Open Cluster Management (OCM) for the end-to-end tests, once per
# version, into a cache folder outside the source tree. ocm-work is the work manager and
# the work agent, ocm-server is the gRPC server of a hub. The folder manifests has the
# CRDs and cluster roles that OCM installs.
#
#   build.sh         build the programs if one is missing
#   build.sh --dir   print the folder of the programs, which may not exist yet
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

if [[ ! -x $dir/ocm-work || ! -x $dir/ocm-server ]]; then
  echo "ocm: building open-cluster-management.io/ocm/cmd/{work,server} (about 5 minutes, once)"
  mkdir -p "$dir"
  # The programs are renamed when all files are complete. An interrupted build leaves
  # only a hidden folder, which the trap removes.
  tmp=$(mktemp -d "$dir/.build.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 130' INT TERM
  cd "$here"
  mkdir "$tmp/bin"
  # One call for both: the programs share most packages.
  nice go build -ldflags "-s -w" -o "$tmp/bin/" open-cluster-management.io/ocm/cmd/{work,server}
  ocm=$(go list -m -f '{{.Dir}}' open-cluster-management.io/ocm)
  cp -r "$ocm/manifests/cluster-manager/hub" "$tmp/manifests"
  # The operator gives these rights to the agents of a cluster.
  cp -r "$ocm/pkg/registration/hub/manifests/rbac" "$tmp/manifests/agents"
  chmod -R u+w "$tmp/manifests" # the module cache is read-only
  rm -rf "$dir/manifests"
  mv "$tmp/manifests" "$dir/"
  for name in work server; do
    mv "$tmp/bin/$name" "$dir/ocm-$name"
  done
fi
echo "ocm: ocm-work and ocm-server $version are in $dir"
