#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Install helm. The checksums are those of https://github.com/helm/helm/releases/tag/v4.2.4.
set -euo pipefail
version=v4.2.4
folder=${1:-/usr/local/bin}

case $(uname -m) in
  x86_64) arch=amd64 sum=c306b46f719b0a4da32d0f78ee21bf90ce8d602f15b22ab753f0674d1670a7f3 ;;
  aarch64) arch=arm64 sum=564de2191b881e9f71b5606b25345821ea1682f06ab90499d3ab22b530176da1 ;;
  *) echo "There is no checksum of helm for $(uname -m): add it to this script." >&2 && exit 1 ;;
esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
curl --fail --silent --show-error --location --proto '=https' --output "$scratch/helm.tar.gz" \
  "https://get.helm.sh/helm-$version-linux-$arch.tar.gz"
echo "$sum  $scratch/helm.tar.gz" | sha256sum --check --quiet
tar --extract --gzip --file "$scratch/helm.tar.gz" --directory "$scratch" "linux-$arch/helm"
install -m 0755 "$scratch/linux-$arch/helm" "$folder/helm"
