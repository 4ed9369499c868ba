# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated library, and the file that it answers from."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import typing as t
from pathlib import Path

from lab.errors import UnavailableError

SOURCE = Path(__file__).with_name("nvml.c")
NAME = "libnvidia-ml.so.1"
FLAGS = ("-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared")


def build(folder: Path) -> Path:
    """Compile the library into a folder and return its path."""
    if not shutil.which("cc"):
        raise UnavailableError("The simulated NVML needs a C compiler, and there is no cc on PATH.")
    library = folder / NAME
    command = ["cc", *FLAGS, f"-Wl,-soname,{NAME}", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    return library


@dataclasses.dataclass
class Gpu:
    """A GPU of the state file: the keys that nvml.c describes, and one dictionary of keys for each MIG instance."""

    keys: dict[str, t.Any]
    mig: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)


def state(path: Path, gpus: t.Sequence[Gpu], **system: t.Any) -> Path:
    """Write the state file with the keys of the system and of each GPU with its MIG instances."""
    sections = [("system", {"driver_version": "580.95.05", **system})]
    for gpu in gpus:
        sections += [("gpu", gpu.keys), *(("mig", instance) for instance in gpu.mig)]
    path.write_text(
        "".join(f"[{kind}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items()) for kind, keys in sections)
    )
    return path
