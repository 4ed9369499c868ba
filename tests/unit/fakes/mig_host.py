# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs and layouts for the tests of MIG, and a host with a systemd that records which units are enabled."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import (
    ComputeInstance,
    Gpu,
    Instance,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import table

from lab.nvml import Model, plant
from tests.unit.fakes.host import FakeHost

H100 = table.named("H100-80GB")
A30 = table.named("A30")
WANTS = "/etc/systemd/system/multi-user.target.wants"


class MigHost(FakeHost):
    """A host whose ``systemctl`` enables units, and fails to start them if ``broken`` says why."""

    def __init__(self, root: Path, model: Model, count: int) -> None:
        super().__init__(root, systemctl=self._systemctl, journalctl=self._journal)
        self.broken = ""
        plant(root, model, count)
        self.put("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n")

    def process(self, pid: int, name: str, user: int = 1000, *devices: str) -> None:
        """Let a process run, with device files open."""
        self.put(f"/proc/{pid}/comm", f"{name}\n")
        self.put(f"/proc/{pid}/status", f"Name:\t{name}\nUid:\t{user}\t{user}\t{user}\t{user}\n")
        for number, device in enumerate(devices):
            folder = Path(self.path(f"/proc/{pid}/fd"))
            folder.mkdir(parents=True, exist_ok=True)
            os.symlink(device, folder / str(number))

    def called(self) -> list[str]:
        """Return the calls of systemctl so far, and forget them."""
        calls = [" ".join(command[1:]) for command in self.ran if command[0] == "systemctl"]
        self.ran.clear()
        return calls

    def _systemctl(self, command: list[str]) -> str:
        action, unit = command[1], command[-1]
        link = Path(self.path(f"{WANTS}/{unit}"))
        if action == "enable":
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(f"/etc/systemd/system/{unit}")
        elif action == "disable":
            link.unlink()
        elif action == "restart" and self.broken:
            raise OSError(f"Job for {unit} failed")
        return ""

    def _journal(self, command: t.Sequence[str]) -> str:
        assert "--unit" in command
        return f"{self.broken}\n"


def gpu(model: table.Model, *instances: Instance, index: int = 0, mode: bool = True, **more: t.Any) -> Gpu:
    """Return a GPU with instances, whose mode is not about to change."""
    defaults = {"pending": mode, "slots": model.slots, "profiles": model.profiles}
    identity = {"index": index, "uuid": f"GPU-{index}", "address": f"0000:{18 + index}:00.0", "product": "NVIDIA H100"}
    return Gpu(**{**identity, **defaults, "mode": mode, "instances": instances, **more})


def instance(model: table.Model, number: int, name: str, start: int, *shape: int) -> Instance:
    """Return a GPU instance, by default with one compute instance that has all of it."""
    profile = model.profile(name)
    assert profile
    compute, place = [], 0
    for at, slices in enumerate(shape or (profile.compute,)):
        compute.append(ComputeInstance(at, slices, place, index=at, uuid=f"MIG-{number}-{at}", memory_mib=9984))
        place += slices
    return Instance(number, name, profile.compute, start, profile.slots, tuple(compute))


def entry(**options: t.Any) -> dict[str, t.Any]:
    """Return an entry of the option layout, with its defaults."""
    return {"gpus": ["all"], "mode": "enabled", "instances": None, "placements": None, **options}
