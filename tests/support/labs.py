# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest fixtures: labs for the whole test run, or for one test, that are removed at the end."""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

import pytest

from lab.cluster import Lab, Options
from tests.support.ansible import on


@contextlib.contextmanager
def running_lab(purpose: str, options: Options | None = None) -> t.Iterator[Lab]:
    """Run a lab for the duration of a block. The process id in its name separates test runs and xdist workers."""
    lab = Lab(f"test-{purpose}-{os.getpid()}")
    lab.up(options or Options(upgrade_tick=3))
    try:
        yield lab
    finally:
        lab.down()


@contextlib.contextmanager
def running_sharing_fleet(purpose: str, **options: t.Any) -> t.Iterator[Lab]:
    """Run a lab with A100, H100, T4 and L40S, a ready stack and the MIG strategy mixed, for the duration of a block."""
    with running_lab(purpose, Options(fleet="sharing", mig_patience=6, upgrade_tick=1, **options)) as lab:
        lab.deploy()
        policy = {"spec": {"mig": {"strategy": "mixed"}}}
        lab.kubectl("patch", "clusterpolicy", "cluster-policy", "--type=merge", f"--patch={json.dumps(policy)}")
        run = on(lab).module("gpuops.nvidia.clusterpolicy_info", wait=True, wait_timeout=120)
        assert run.status == 0, run.output
        yield lab


@pytest.fixture(scope="session")
def lab() -> t.Iterator[Lab]:
    """A lab with 4 H100 nodes and the stand-in operator, without its chart. Tests that share it clean up."""
    with running_lab("shared") as running:
        yield running


@pytest.fixture
def fresh_lab() -> t.Iterator[Lab]:
    """The same lab for one test, which may break it."""
    with running_lab("fresh") as running:
        yield running


@pytest.fixture(scope="session")
def deployed_lab() -> t.Iterator[Lab]:
    """A lab in which helm has installed the chart with its defaults, and whose stack is ready."""
    with running_lab("deployed") as running:
        running.deploy()
        yield running


def state_of(running: Lab) -> str:
    """Return what explains a failure on a lab: its nodes, the pods of the stack, and the ends of its logs."""
    nodes = [
        f"{item['metadata']['name']} cordoned={item['spec'].get('unschedulable', False)} "
        f"{json.dumps({key: value for key, value in item['metadata']['labels'].items() if 'nvidia.com' in key})}"
        for item in json.loads(running.kubectl("get", "nodes", "--output=json"))["items"]
    ]
    pods = running.kubectl("get", "pods", "--namespace=gpu-operator", "--output=wide")
    logs = [
        f"{name}.log\n{(running.folder / 'logs' / f'{name}.log').read_text()[-3000:]}"
        for name in ("operator", "agents")
    ]
    return "\n\n".join(("\n".join(nodes), pods, *logs))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> t.Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the labs to the report of a test that fails on them."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Lab):
                with contextlib.suppress(Exception):
                    report.sections.append((f"lab {name}", state_of(value)))
    return report
