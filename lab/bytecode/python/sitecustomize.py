# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep the bytecode of modules in zip files, which Python compiles twice in every process that imports them.

GPUOPS_INTERPRETER replaces Python's path, with which Ansible runs the modules for this machine (lab/interpreter).

Python imports this module whenever it starts, so it imports only what is loaded anyway.
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
import zipimport
from types import CodeType

FOLDER = os.environ.get("GPUOPS_BYTECODE", "")
_compile = zipimport._compile_source  # type: ignore[attr-defined]
_once: dict[str, CodeType] = {}
"""What was compiled to find a file's name and has not been run yet."""


def _kept_or_compiled(path: str, source: bytes) -> CodeType:
    if path in _once:
        return _once.pop(path)
    # The hash that Python's own .pyc files use.
    kept = os.path.join(FOLDER, f"{sys.implementation.cache_tag}-{_imp.source_hash(len(source), source).hex()}")
    try:
        with open(kept, "rb") as file:
            code: CodeType = marshal.load(file)  # noqa: S302 - the folder belongs to who runs the tests
    except (OSError, EOFError, ValueError, TypeError):
        code = _compile(path, source)
        _write(kept, marshal.dumps(code))
    _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
    _once[path] = code
    return code


def _write(path: str, content: bytes) -> None:
    """Write a file as a whole: other processes read it at any time."""
    part = f"{path}.{os.getpid()}"
    try:
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except OSError:
        pass  # It is compiled again the next time.


if FOLDER:
    zipimport._compile_source = _kept_or_compiled  # type: ignore[attr-defined]

sys.executable = os.environ.get("GPUOPS_INTERPRETER") or sys.executable
