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

# ansible-test clears the environment and calls pythonX.Y from PATH, where a shim of pyenv would not start.
mkdir -p build/bin
ln -sf "$($python -c 'import os, sys; print(os.path.realpath(sys._base_executable))')" "build/bin/python$version"
export PATH=$PWD/build/bin:$PWD/.venv/bin:/usr/local/bin:/usr/bin:/bin

# ansible-test downloads pip for its virtual environments. Put a script that installs pip from this Python and the
# package index into its cache, where it looks first.
# This project has a home folder of its own for it: other projects must not run that script.
mkdir -p build/home
ln -sfn "${XDG_CACHE_HOME:-$HOME/.cache}" build/home/.cache
export HOME=$PWD/build/home
cache=$HOME/.ansible/test/cache
mkdir -p "$cache"
pip=$($python - <<'EOF'
import pathlib, re
import ansible_test
requirements = pathlib.Path(ansible_test.__file__).parent / "_internal" / "python_requirements.py"
print(re.search(r"pip='([0-9.]+)'", requirements.read_text())[1])
EOF
)
cat >"$cache/get_pip_${pip//./_}.py" <<EOF
import subprocess, sys
subprocess.check_call([sys.executable, "-m", "ensurepip", "--upgrade"])
subprocess.check_call([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "pip==$pip"])
EOF
cd "$copy"
exec "$python" "$(dirname "$python")/ansible-test" sanity --color no --python "$version" "$@"
