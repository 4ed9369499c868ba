#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Build the documentation into build/docs/html: the pages of docs/, and a page for each plugin and role. Warnings are
# errors.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.venv/bin:$PATH ANSIBLE_COLLECTIONS_PATH=$PWD/.venv/share ANSIBLE_HOME=$PWD/build/ansible
source=build/docs/source
rm -rf build/docs
mkdir -p build/docs
cp -r docs "$source"
# antsibull-docs requires a folder that only its owner can write to.
mkdir -m 755 "$source/reference/collections"
antsibull-docs --config-file scripts/antsibull.cfg collection --use-current --squash-hierarchy --no-indexes \
  --fail-on-error --dest-dir "$source/reference/collections" gpuops.nvidia
# The pages of the wings replace its index.
rm "$source/reference/collections/index.rst"
python scripts/role_readmes.py --html "$source/reference/collections"
site=$(sed -n 's/^documentation: //p' galaxy.yml)
sphinx-build -W --keep-going -q -D html_baseurl="${site}main/" "$source" build/docs/html
python scripts/check_site.py build/docs/html "${site}main/"
echo "The documentation is in build/docs/html/index.html"
