#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Check that the generated pages are up to date, and lint the documentation of plugins and roles. The lint runs
# outside the checkout, because antsibull-docs asks git for the files of each collection, and git ignores those below
# .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python scripts/reference_pages.py --check
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
copy=$folder/ansible_collections/gpuops/nvidia
bin=$PWD/.venv/bin
config=$PWD/scripts/antsibull.cfg
scripts/copy_collection.sh "$copy"
cd "$copy"
ANSIBLE_COLLECTIONS_PATH=$folder PATH=$bin:$PATH "$bin/antsibull-docs" --config-file "$config" \
  lint-collection-docs --plugin-docs --skip-rstcheck .
