#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the tools of go.mod and lint/go.mod, once per set of versions, into a
# cache folder outside the source tree.
#
#   build.sh --dir             print the folder of the tools, which may not exist yet
#   build.sh NAME [NAME …]     build these tools if they are missing
#
# With `go tool`, the tools would be linked again after each trim of the build
# cache. For golangci-lint this takes minutes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export GOWORK=off

# The Go version is part of the name: golangci-lint refuses to check code for a
# newer Go than it was built with.
key=$({ cat "$here"/go.mod "$here"/go.sum "$here"/*/*.go "$here"/lint/go.mod "$here"/lint/go.sum; go env GOVERSION GOOS GOARCH; } | cksum | tr ' ' '-')
cache=${XDG_CACHE_HOME:-${HOME:?set HOME or SPOKEWIRE_TOOLS_DIR}/.cache}
dir=${SPOKEWIRE_TOOLS_DIR:-$cache/spokewire/tools-$key}

if [[ ${1:-} == --dir ]]; then
  echo "$dir"
  exit
fi

tmp=
trap '[[ -z $tmp ]] || rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

for name in "$@"; do
  if [[ -x $dir/$name ]]; then
    continue
  fi
  # The linter has its own module with the versions of its release. It does not
  # build with the newer versions that the other tools need.
  module=$here
  if [[ $name == golangci-lint ]]; then
    module=$here/lint
  fi
  package=$(cd "$module" && go list -f '{{.ImportPath}}' tool | grep "/$name\$" || true)
  if [[ -z $package ]]; then
    echo "tools: $name is not a tool of $module/go.mod" >&2
    exit 1
  fi
  echo "tools: building $name (once)"
  mkdir -p "$dir"
  tmp=$(mktemp -d "$dir/.build.XXXXXX")
  (cd "$module" && nice go build -ldflags "-s -w" -o "$tmp/$name" "$package")
  mv "$tmp/$name" "$dir/$name"
  rm -rf "$tmp"
  tmp=
done
