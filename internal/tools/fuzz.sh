#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs each fuzz test of some packages for a while, with a limit of memory.
#
#   fuzz.sh GO TIME WORKERS MIB PACKAGE…
#   fuzz.sh --limited MIB PROGRAM ARGUMENT…
#
# The go command starts each test binary with --limited. The binary and its workers may each allocate MIB of address
# space, where GOMEMLIMIT would only collect garbage more often. The go command shares 100 MiB with each worker, so the
# number of workers must be fixed.
set -euo pipefail

if [[ $1 == --limited ]]; then
  mib=$2
  shift 2
  # The detectors of races and of bad addresses reserve terabytes.
  settings=$(go version -m "$1")
  if grep -qE '^\s+build\s+-(race|asan|msan)=true$' <<<"$settings"; then
    echo "fuzz: no memory limit with -race, -asan or -msan" >&2
  else
    ulimit -v $((mib * 1024))
  fi
  exec "$@"
fi

go=$1 time=$2 workers=$3 mib=$4
shift 4
self=$(realpath "${BASH_SOURCE[0]}")
# Words of -exec may be quoted.
limited="'$self' --limited $mib"
packages=$("$go" list "$@")
for package in $packages; do
  functions=$("$go" test -list '^Fuzz' "$package")
  for function in $(grep '^Fuzz' <<<"$functions" || true); do
    echo "== $package $function"
    "$go" test -exec "$limited" -run '^$' -fuzz "^$function\$" -fuzztime "$time" -parallel "$workers" "$package"
  done
done
