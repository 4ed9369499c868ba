#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Build the collection's archive and import it as Galaxy does. The importer needs older libraries than the other
# tools, so it has its own environment.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=requirements/importer.txt
if [ ! -x build/importer/bin/python ] || ! cmp -s "$lock" build/importer/lock; then
  rm -rf build/importer
  .venv/bin/python -m venv build/importer
  build/importer/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement "$lock"
  # ansible-doc finds the collections that this one depends on here; the importer shows it only its own copy of this
  # one.
  packages=$(build/importer/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp -r -P .venv/share/ansible_collections "$packages/"
  cp "$lock" build/importer/lock
fi
# Only files that git tracks get into the archive, whatever else lies in a checkout (a kubeconfig, a report).
rm -rf build/archive
scripts/copy_files.sh build/source --cached
.venv/bin/ansible-galaxy collection build --output-path build/archive build/source >/dev/null
cat >build/importer.cfg <<EOF
[galaxy-importer]
RUN_ANSIBLE_TEST=False
RUN_ANSIBLE_DOC=True
RUN_ANSIBLE_LINT=False
CHECK_CHANGELOG=True
CHECK_REQUIRED_TAGS=True
EOF
root=$PWD
log=$root/build/importer.log
cd build # The importer leaves its result in the working folder.
PATH=$root/build/importer/bin:/usr/local/bin:/usr/bin:/bin GALAXY_IMPORTER_CONFIG=$root/build/importer.cfg \
  importer/bin/python -m galaxy_importer.main archive/*.tar.gz >"$log" 2>&1 || { cat "$log"; exit 1; }
if grep -E '^(ERROR|WARNING)' "$log"; then
  echo "galaxy-importer found the above" >&2
  exit 1
fi
echo "galaxy-importer: no findings"
