#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Copy the collection to FOLDER/ansible_collections/gpuops/nvidia, beside the collections that it depends on, because
# some tools work only there.
# Usage: copy_collection.sh FOLDER/ansible_collections/gpuops/nvidia
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$1
root=$(dirname "$(dirname "$copy")")

# What is shipped: the files that git tracks, and new files that it does not ignore. ruff judges the tests, in which a
# message stands on one line, however long.
wanted=(galaxy.yml README.md meta plugins roles playbooks changelogs tests/config.yml)
scripts/copy_files.sh "$copy" --cached --others --exclude-standard -- "${wanted[@]}"
git -C "$copy" init --quiet
git -C "$copy" add --all

# The collections that this one depends on.
for name in kubernetes ansible community; do
  rm -rf "${root:?}/$name"
  cp -r ".venv/share/ansible_collections/$name" "$root/"
done
