# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest fixtures: labs that come up once, or once per test, and are gone when the tests are over."""

from __future__ import annotations

import contextlib
import os
import typing as t

import pytest

from lab.cluster import Lab, Options


@contextlib.contextmanager
def running_lab(purpose: str, options: Options | None = None) -> t.Iterator[Lab]:
    """A lab for as long as a block runs. The process id in its name keeps test runs apart, also those of pytest-xdist's workers."""
    lab = Lab(f"test-{purpose}-{os.getpid()}")
    lab.up(options or Options(upgrade_tick=3))
    try:
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="session")
def lab() -> t.Iterator[Lab]:
    """4 H100 nodes and the stand-in operator at work; its chart is not installed. For tests that clean up behind themselves."""
    with running_lab("shared") as running:
        yield running


@pytest.fixture
def fresh_lab() -> t.Iterator[Lab]:
    """The same for one test alone, which may break it."""
    with running_lab("fresh") as running:
        yield running


@pytest.fixture(scope="session")
def deployed_lab() -> t.Iterator[Lab]:
    """A lab of its own in which helm has installed the operator stack with the chart's defaults, and which has become ready."""
    with running_lab("deployed") as running:
        running.deploy()
        yield running
