#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Build the documentation into build/docs/html: the pages of docs/ and a page for each plugin and role. Warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf build/docs
mkdir -p build/docs
cp -r docs build/docs/source
mkdir -m 755 build/docs/source/collections
.venv/bin/antsibull-docs --config-file scripts/antsibull.cfg collection --use-current --squash-hierarchy --fail-on-error --dest-dir build/docs/source/collections gpuops.nvidia
.venv/bin/sphinx-build -W --keep-going -q build/docs/source build/docs/html
echo "The documentation is in build/docs/html/index.html"
