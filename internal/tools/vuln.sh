#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Looks for known vulnerabilities in the functions that the SDK calls.
#
#   vuln.sh PROGRAM DATABASE
#
# It checks first that the database is reachable: govulncheck loads all packages
# before it reports that.
set -euo pipefail

govulncheck=$1 database=$2
answer=$(timeout 60 "$govulncheck" -db "$database" -version 2>&1) || true
if [[ $answer != *"DB updated:"* ]]; then
  reason=$(grep -v '^Go:\|^Scanner:\|^DB:\|^$' <<<"$answer" || true)
  cat >&2 <<END
vuln: the vulnerability database $database cannot be read, so nothing was checked.${reason:+ ($reason)}
vuln: this needs the network, or a copy of the database: make vuln VULNDB=https://HOST, or VULNDB=file:///FOLDER
END
  exit 1
fi
"$govulncheck" -db "$database" ./...
