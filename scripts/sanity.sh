#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
# Run ansible-test sanity, without any ignore entry.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=build/sanity/ansible_collections/gpuops/nvidia
python=$PWD/.venv/bin/python
version=$($python -c 'import sys; print("{}.{}".format(*sys.version_info))')

scripts/copy_collection.sh "$copy"

# ansible-test clears the environment and calls pythonX.Y from PATH, where a pyenv shim would refuse.
mkdir -p build/bin
ln -sf "$($python -c 'import os, sys; print(os.path.realpath(sys._base_executable))')" "build/bin/python$version"
export PATH=$PWD/build/bin:$PWD/.venv/bin:/usr/local/bin:/usr/bin:/bin

# Its virtual environments get their pip from a download that is pinned by name only: give it one from this Python instead,
# so that the package index is all that is needed.
cache=${HOME}/.ansible/test/cache
mkdir -p "$cache"
for name in $(grep -rhoE 'get_pip_[0-9_]+\.py' "$($python -c 'import ansible_test, os; print(os.path.dirname(ansible_test.__file__))')" | sort -u) get_pip_25_2.py; do
  wanted=${name#get_pip_}
  wanted=${wanted%.py}
  [ -s "$cache/$name" ] || cat >"$cache/$name" <<EOF
import subprocess, sys
subprocess.check_call([sys.executable, "-m", "ensurepip", "--upgrade"])
subprocess.check_call([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "pip==${wanted//_/.}"])
EOF
done
cd "$copy"
exec "$python" "$(dirname "$python")/ansible-test" sanity --color no --python "$version" "$@"
