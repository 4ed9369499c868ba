# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container host that hangs for a moment while it boots is asked again."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.hosts.containers.hosts import ANSWER_S, ContainerHost
from lab.hosts.containers.podman import Podman


class Booting:
    """A podman whose host hangs twice and is then up with another boot id."""

    def __init__(self) -> None:
        self.answers: list[str] = ["hangs", "hangs", "before", "after"]
        self.asked: list[float] = []

    def run_on(self, host: str, *command: str, timeout: float) -> str:
        self.asked.append(timeout)
        if command[0] != "cat":
            return "running"
        answer = self.answers.pop(0)
        if answer == "hangs":
            raise LabError("it did not end within 10 s")
        return answer

    def __call__(self, *arguments: str) -> str:
        return ""


def test_a_host_that_hangs_while_it_reboots_is_asked_again() -> None:
    podman = Booting()
    ContainerHost("h", "debian", t.cast("t.Any", podman)).wait(other_than="before")
    assert podman.answers == [] and podman.asked[:4] == [ANSWER_S] * 4 and podman.asked[4] >= ANSWER_S


def test_a_command_that_hangs_is_an_error_of_the_lab() -> None:
    with pytest.raises(LabError, match="did not end within 0 s"):
        object.__new__(Podman)._run(Path("/bin/sleep"), "5", timeout=0.1)
