# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated library."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from lab.errors import UnavailableError
from lab.nvml import profiles

SOURCES = ("nvml.c", "state.c", "mig.c", "processes.c")
NAME = "libnvidia-ml.so.1"
FLAGS = ("-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-pthread")


def build(folder: Path) -> Path:
    """Compile the library into a folder and return its path."""
    if not shutil.which("cc"):
        raise UnavailableError("The simulated NVML needs a C compiler, and there is no cc on PATH.")
    library = folder / NAME
    sources = [str(Path(__file__).with_name(name)) for name in SOURCES]
    with tempfile.TemporaryDirectory() as generated:
        Path(generated, "profiles.h").write_text(profiles.header())
        exported = Path(generated, "exported")
        # A program that loads the library globally must not find its own functions replaced.
        exported.write_text("{ global: nvml*; local: *; };\n")
        options = (f"-I{generated}", f"-Wl,-soname,{NAME}", f"-Wl,--version-script={exported}")
        command = ["cc", *FLAGS, *options, "-o", str(library), *sources]
        subprocess.run(command, check=True)
    return library
