#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Import every module that runs on GPU hosts with an old Python, which sees ansible-core and this collection only.
# Usage: host_import.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3.9}
"$python" --version || { echo "host_import: $python does not start: set HOST_PYTHON to a path of Python 3.9" >&2; exit 1; }

path=$(mktemp -d)
trap 'rm -rf "$path"' EXIT
ln -s "$(.venv/bin/python -c 'import ansible, os; print(os.path.dirname(ansible.__file__))')" "$path/ansible"
ln -s "$PWD/.venv/share/ansible_collections" "$path/ansible_collections"

modules=$(grep --files-with-matches --fixed-strings 'module_utils._host' plugins/modules/*.py)
for file in $modules; do
  name=$(basename "$file" .py)
  PYTHONPATH=$path "$python" -B -c "import ansible_collections.gpuops.nvidia.plugins.modules.$name"
  echo "$name: imported"
done
