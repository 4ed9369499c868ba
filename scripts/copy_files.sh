#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Copy the files that git lists to a new folder. A file that git tracks and that is deleted is left out.
# Usage: copy_files.sh FOLDER [ARGUMENT OF git ls-files]...
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$1
shift

rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z "$@" | while IFS= read -r -d '' file; do
  [ -e "$file" ] && printf '%s\0' "$file"
done | tar --null --files-from=- --create | tar --extract --directory "$copy"
