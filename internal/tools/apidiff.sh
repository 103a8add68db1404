#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Compares the exported API of the SDK with that of the last release.
#
#   apidiff.sh PROGRAM
#
# Before v1 a change that breaks users is allowed but must be meant, so it is
# printed; from v1 on it is an error.
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
(cd "$work/old" && "$apidiff" -m -w "$work/old.api" "$module")
"$apidiff" -m -w "$work/new.api" "$module"

echo "apidiff: changes of $module since $last:"
"$apidiff" -m "$work/old.api" "$work/new.api"
broken=$("$apidiff" -m -incompatible "$work/old.api" "$work/new.api")
if [[ -n $broken && $last != v0.* ]]; then
  echo "apidiff: the incompatible ones need a new major version" >&2
  exit 1
fi
