# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role preflight on hosts that cannot serve GPUs."""

from __future__ import annotations

import typing as t

import pytest

from lab.hosts import Machine
from tests.support.hosts import become_opensuse, running_containers
from tests.support.plays import Plays


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """A host without GPUs."""
    with running_containers("preflight", {"ubuntu": 1}, Machine(gpus=0)) as hosts:
        yield Plays(hosts, tmp_path_factory.mktemp("plays"))


def test_a_host_without_gpus_fails(plays: Plays) -> None:
    run = plays.run("preflight/hosts")
    assert run.status == 2 and "no NVIDIA GPU" in run.output, run.output


def test_an_operating_system_without_packages_is_named(plays: Plays) -> None:
    become_opensuse(plays.hosts[0])
    run = plays.run("preflight/hosts")
    assert "opensuse-leap 15.6" in run.output
