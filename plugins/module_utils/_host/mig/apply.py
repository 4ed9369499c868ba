# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.
"""Carries out the steps of a plan, and undoes all of them if the driver refuses one."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import Gpu
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.library import DriverError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.plan import Step
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


class Changer(t.Protocol):
    """What changes GPUs: the library's Driver."""

    def set_mode(self, uuid: str, on: bool) -> str | None:
        """Set the mode."""

    def create(self, uuid: str, number: int, start: int, size: int) -> int:
        """Create a GPU instance."""

    def create_compute(self, uuid: str, instance: int, slices: int, place: int) -> int:
        """Create a compute instance at a place."""

    def destroy(self, uuid: str, instance: int) -> None:
        """Destroy a GPU instance."""

    def destroy_compute(self, uuid: str, instance: int, compute: int) -> None:
        """Destroy a compute instance."""


class Work:
    """The steps that were done, and the numbers of the GPU instances by their places."""

    def __init__(self, driver: Changer, gpus: t.Iterable[Gpu]) -> None:
        self._driver = driver
        self._numbers = {(gpu.uuid, each.start): each.id for gpu in gpus for each in gpu.instances}
        self._done: list[Step] = []
        self._waiting: set[str] = set()

    def run(self, steps: t.Sequence[Step]) -> t.Iterator[Json]:
        """Do the steps, and yield what happens. After the first failure, undo them in reverse order."""
        for number, step in enumerate(steps):
            if step.uuid not in self._waiting:
                yield {"doing": number}
                try:
                    reason = self._do(step)
                except DriverError as e:
                    yield {"failed": number, "error": str(e)}
                    yield from self._undo()
                    return
                if reason is not None:
                    # Without the mode, the work on this GPU ends here. What the unit makes at boot does the rest.
                    self._waiting.add(step.uuid)
                    yield {"waits": step.gpu, "reason": reason}
        yield {"end": True}

    def _undo(self) -> t.Iterator[Json]:
        gone = set()
        for step in self._done[::-1]:
            inverse = step.inverse()
            if (step.uuid, step.start) not in gone:
                try:
                    self._do(inverse)
                except DriverError as e:
                    yield {"stuck": inverse.text, "error": str(e)}
                    # What was inside an instance that could not be created again is implied.
                    gone |= {(step.uuid, step.start)} if inverse.action == "create" else set()
        yield {"end": True}

    def _do(self, step: Step) -> str | None:
        """Do one step. Return why a mode takes effect later only."""
        reason = None
        place = (step.uuid, step.start)
        if step.action == "mode":
            reason = self._driver.set_mode(step.uuid, step.on)
        elif step.action == "create":
            self._numbers[place] = self._driver.create(step.uuid, step.number, step.start, step.size)
        elif step.action == "destroy":
            self._driver.destroy(step.uuid, self._numbers[place])
        elif step.action == "create_compute":
            made = self._driver.create_compute(step.uuid, self._numbers[place], step.slices, step.place)
            step = dataclasses.replace(step, compute=made)
        else:
            self._driver.destroy_compute(step.uuid, self._numbers[place], step.compute or 0)
        self._done.append(step)
        return reason
