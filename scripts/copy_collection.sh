#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Copy the collection to FOLDER/ansible_collections/gpuops/nvidia beside those that it depends on: some tools insist on that place.
# Usage: copy_collection.sh FOLDER/ansible_collections/gpuops/nvidia
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$1
root=$(dirname "$(dirname "$copy")")

rm -rf "$copy"
mkdir -p "$copy"
# What is shipped, and its tests: files that git tracks and new ones that it does not ignore. The lab is no part of the collection.
git ls-files -z --cached --others --exclude-standard -- galaxy.yml README.md meta plugins roles playbooks changelogs tests/config.yml tests/unit | while IFS= read -r -d '' file; do
  [ -e "$file" ] && printf '%s\0' "$file"
done | tar --null --files-from=- --create | tar --extract --directory "$copy"
git -C "$copy" init --quiet
git -C "$copy" add --all

# The collections that this one depends on.
for name in kubernetes ansible community; do
  rm -rf "${root:?}/$name"
  cp -r ".venv/share/ansible_collections/$name" "$root/"
done
