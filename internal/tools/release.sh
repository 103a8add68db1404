#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spokewire Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the programs of a release into dist, with an SBOM (CycloneDX) for each program and the
# checksums of all files.
#
#   release.sh GO "PROGRAM …" "GOOS/GOARCH …"
#
# Two checkouts of one commit, with the same version of Go, give the same bytes.
set -euo pipefail

go=$1 programs=$2 platforms=$3
rm -rf dist
mkdir dist
for program in $programs; do
  for platform in $platforms; do
    file=dist/$program-${platform/\//-}
    echo "release: building $file"
    CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} \
      "$go" build -trimpath -buildvcs=true -ldflags '-s -w' -o "$file" "./examples/$program"
    version=$("$go" version -m "$file" | awk '$1 == "mod" { print $3 }')
    # The SBOM has the checksum of this tool, so the tool must have the same bytes everywhere too.
    CGO_ENABLED=0 GOFLAGS=-trimpath \
      "$go" tool -modfile internal/tools/sbom/go.mod cyclonedx-gomod bin -json -std -noserial -notimestamp \
      -version "$version" -output "$file.cdx.json" "$file" 2>&1 | sed '/ INF /d'
  done
done
(cd dist && export LC_ALL=C && sha256sum -- * >SHA256SUMS)
echo "release: $version is in dist"
