#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds Maestro's program for the end-to-end tests, once per version, into a cache folder
# outside the source tree.
#
#   build.sh         build the program if it is missing
#   build.sh --dir   print the folder of the program, which may not exist yet
#
# SPOKEWIRE_MAESTRO_DIR sets another folder.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export GOWORK=off

program=github.com/openshift-online/maestro
version=$(awk -v program=$program '$1 == "require" && $2 == program { print $3; exit }' "$here/go.mod")
cache=${XDG_CACHE_HOME:-${HOME:?set HOME or SPOKEWIRE_MAESTRO_DIR}/.cache}
dir=${SPOKEWIRE_MAESTRO_DIR:-$cache/spokewire/maestro-$version}

if [[ ${1:-} == --dir ]]; then
  echo "$dir"
  exit
fi

if [[ ! -x $dir/maestro ]]; then
  echo "maestro: building $program/cmd/maestro (about 3 minutes, once)"
  mkdir -p "$dir"
  # The program is renamed when it is complete. An interrupted build leaves only a hidden
  # folder, which the trap removes.
  tmp=$(mktemp -d "$dir/.build.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 130' INT TERM
  cd "$here"
  nice go build -ldflags "-s -w" -o "$tmp/maestro" $program/cmd/maestro
  mv "$tmp/maestro" "$dir/"
fi
echo "maestro: maestro $version is in $dir"
