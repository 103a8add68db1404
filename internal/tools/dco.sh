#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Fails if a commit lacks the line "Signed-off-by:" of its author. Merges need no line.
#
#   dco.sh RANGE
set -euo pipefail

commits=$(git rev-list --no-merges "$1")
missing=0
for commit in $commits; do
  author=$(git show -s --format='%an <%ae>' "$commit")
  signed=$(git show -s --format='%(trailers:key=Signed-off-by,valueonly)' "$commit")
  if ! grep -qixF -- "$author" <<<"$signed"; then
    git show -s --format="dco: %h %s: no line \"Signed-off-by: $author\"" "$commit"
    missing=1
  fi
done
if ((missing)); then
  echo "dco: sign the commits off: git rebase --signoff ${1%%..*}" >&2
fi
exit "$missing"
