# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``python -m lab nvml``."""

from __future__ import annotations

import argparse
import shlex
import typing as t
from pathlib import Path

from lab.errors import LabError
from lab.nvml import library, models, statefile


def add_commands(commands: t.Any) -> None:
    """Add the commands of ``python -m lab nvml``."""
    summary = "Write the simulated library and its state file into a folder, and print the settings for programs."
    build: argparse.ArgumentParser = commands.add_parser("build", help=summary, description=summary)
    build.add_argument("folder", type=Path, metavar="FOLDER")
    build.add_argument("--model", choices=models.MODELS, default="h100", help="GPU model (default: %(default)s)")
    build.add_argument("--gpus", type=int, choices=range(1, 9), default=8, help="GPUs (default: %(default)s)")
    build.set_defaults(run=_build)
    for name, run, summary in (
        ("reset", _reset, "Reset the GPUs of a state file: a pending MIG mode takes effect, and instances vanish."),
        (
            "reboot",
            _reboot,
            "Reboot the machine of a state file: processes end, and Hopper and later lose MIG mode.",
        ),
    ):
        command: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("state", type=Path, metavar="STATE")
        command.set_defaults(run=run)


def _build(arguments: argparse.Namespace) -> None:
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    library.build(folder)
    gpus = models.machine(models.MODELS[arguments.model], arguments.gpus)
    path = statefile.state(folder / "nvml.state", gpus)
    print(f"export LD_LIBRARY_PATH={shlex.quote(str(folder))} FAKE_NVML_STATE={shlex.quote(str(path))}")


def _reset(arguments: argparse.Namespace) -> None:
    if not statefile.reset(arguments.state):
        raise LabError("A GPU is in use: remove the key processes from the state file.")


def _reboot(arguments: argparse.Namespace) -> None:
    statefile.reboot(arguments.state)
