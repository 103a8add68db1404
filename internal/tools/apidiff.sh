#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Compares the exported API of the SDK with that of the last release.
#
#   apidiff.sh PROGRAM
#
# It prints all changes. From v1 on, an incompatible change is an error.
set -euo pipefail

apidiff=$1
root=$(git rev-parse --show-toplevel)
cd "$root"

last=$(git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null || true)
if [[ -z $last ]]; then
  echo "apidiff: there is no release (tag v…) to compare with yet"
  exit
fi

work=$(mktemp -d)
trap 'git worktree remove --force "$work/old" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/old" "$last"
module=$(go list -m)

# quiet COMMAND… prints the errors of a command only if the command fails.
quiet() {
  "$@" 2>"$work/errors" || { cat "$work/errors" >&2; exit 1; }
}
(cd "$work/old" && quiet "$apidiff" -m -w "$work/old.api" "$module")
quiet "$apidiff" -m -w "$work/new.api" "$module"

changes=$(quiet "$apidiff" -m "$work/old.api" "$work/new.api")
if [[ -z $changes ]]; then
  echo "apidiff: nothing has changed in $module since $last"
  exit
fi
echo "apidiff: changes of $module since $last:"
echo "$changes"
broken=$(quiet "$apidiff" -m -incompatible "$work/old.api" "$work/new.api")
if [[ -n $broken && $last != v0.* ]]; then
  echo "apidiff: the incompatible ones need a new major version" >&2
  exit 1
fi
