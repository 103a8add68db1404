#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds kube-apiserver, kube-controller-manager, kubectl and etcd for the end-to-end
# tests, once per version, into a cache folder outside the source tree.
#
#   build.sh         build the missing programs
#   build.sh --dir   print the folder of the programs, which may not exist yet
#
# SPOKEWIRE_KUBE_DIR sets another folder. If KUBEBUILDER_ASSETS is set, as for
# controller-runtime's envtest, the script builds nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
e2e=$here/../e2e
export GOWORK=off

# required MODULE GO_MOD prints the version that GO_MOD requires of MODULE.
required() {
  awk -v m="$1" '$1 == "require" { sub(/^require /, "") } $1 == m { print $2; exit }' "$2"
}

kube_version=$(required k8s.io/kubernetes "$here/go.mod")
etcd_version=$(required go.etcd.io/etcd/server/v3 "$e2e/go.mod")

# The name has both versions, so a folder never has programs of different versions.
cache=${XDG_CACHE_HOME:-${HOME:?set HOME or SPOKEWIRE_KUBE_DIR}/.cache}
dir=${SPOKEWIRE_KUBE_DIR:-$cache/spokewire/kube-$kube_version-etcd-$etcd_version}

if [[ ${1:-} == --dir ]]; then
  echo "${KUBEBUILDER_ASSETS:-$dir}"
  exit
fi
if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  echo "kube: using KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS, nothing to build"
  exit
fi

# Without these flags the API server reports v0.0.0-master, and comparisons of
# versions fail in the server and in clients.
IFS=. read -r major minor _ <<<"${kube_version#v}"
x=k8s.io/component-base/version
kube_flags="-s -w -X $x.gitVersion=$kube_version -X $x.gitMajor=$major -X $x.gitMinor=$minor -X $x.gitTreeState=clean"

tmp=
trap '[[ -z $tmp ]] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

# build MODULE_FOLDER LDFLAGS HINT PACKAGE... builds the missing programs of a module together: they
# share most packages.
build() {
  local module=$1 ldflags=$2 hint=$3 package missing=()
  shift 3
  for package in "$@"; do
    [[ -x $dir/$(name "$package") ]] || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    return
  fi
  echo "kube: building ${missing[*]} ($hint, once)"
  mkdir -p "$dir"
  # Programs are renamed when all are built. An interrupted build leaves only a
  # hidden folder, which the trap removes.
  tmp=$(mktemp -d "$dir/.build.XXXXXX")
  (cd "$module" && nice go build -ldflags "$ldflags" -o "$tmp/" "${missing[@]}")
  local file
  for file in "$tmp"/*; do
    mv "$file" "$dir/$(name "$file")"
  done
  rm -rf "$tmp"
  tmp=
}

# name PATH prints the name of the program of a package or file: etcd's package is "server/v3".
name() {
  local base=${1%/v3}
  base=${base##*/}
  echo "${base/#server/etcd}"
}

# The end-to-end tests import this server, so a build in their module shares almost all packages with
# them. Kubernetes is released with an older etcd client, so the server cannot be in its module.
build "$e2e" "-s -w" "some seconds if the end-to-end tests are compiled" go.etcd.io/etcd/server/v3
build "$here" "$kube_flags" "about 4 minutes" k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kubectl}
echo "kube: kube-apiserver, kube-controller-manager, kubectl $kube_version and etcd $etcd_version are in $dir"
