# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures for labs and hosts, the tiers, the time of each file, and the rule for which files run at the same time."""

from __future__ import annotations

import os
import typing as t

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.support.hosts import container_host, container_hosts, vm_host
from tests.support.labs import deployed_lab, fresh_lab, lab, pytest_runtest_makereport
from tests.support.registries import basic_registry, registry, token_registry
from tests.support.times import (
    keep_reasons,
    pytest_addoption,
    pytest_configure,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

__all__ = [
    "basic_registry", "container_host", "container_hosts", "deployed_lab", "fresh_lab", "lab", "pytest_addoption",
    "pytest_configure", "pytest_runtest_makereport", "pytest_sessionfinish", "pytest_terminal_summary", "registry",
    "token_registry", "vm_host",
]  # fmt: skip

TIERS = {
    "wide": "make test-wide runs it: every case of what the everyday suite shows once.",
    "deep": "make test-deep runs it: virtual machines, real packages and changes that take minutes.",
}
"""The tiers that the everyday suite leaves out, each with what runs it. CONTRIBUTING.md describes them."""

DEEP_S = 5400
"""The seconds after which a deep test that hangs fails. pyproject.toml has those of all others."""

HOSTS = ("tests/roles/", "tests/lab/hosts/", "tests/deep/")
"""The folders whose tests run hosts. The other folders with slow tests run labs."""


LONGEST = (
    "tests/integration/test_site.py",
    "tests/integration/test_operator_upgrade.py",
    "tests/roles/test_host_change.py",
    "tests/integration/test_targets.py",
)
"""The files that take longest. They begin first, so that none of them runs alone at the end."""


class HostsBesideLabs(LoadFileScheduling):
    """Run a test file of hosts beside a test file of labs as long as there are files of both kinds.

    Tests of hosts keep all processors busy, while tests of labs wait most of the time. Two files of hosts in parallel
    would take as long as two in sequence.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        running = {_has_hosts(file) for file in self._running_beside(node)}
        chosen = next((file for file in self.workqueue if _has_hosts(file) not in running), None)
        if chosen:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def _running_beside(self, node: WorkerController) -> list[str]:
        """Return the latest file of each other worker."""
        return [next(reversed(files)) for other, files in self.assigned_work.items() if other is not node and files]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _has_hosts(file: str) -> bool:
    return file.startswith(HOSTS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, and skip the tiers that were not asked for. Virtual machines are deep."""
    items.sort(key=lambda item: LONGEST.index(_file(item)) if _file(item) in LONGEST else len(LONGEST))
    keep_reasons(items)
    for item in items:
        if "vm_host" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.deep)
        if item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.timeout(DEEP_S))
        for tier, reason in TIERS.items():
            if item.get_closest_marker(tier) and not os.environ.get(f"GPUOPS_{tier.upper()}"):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> t.Any:
    """Replace the scheduler of ``--dist=loadfile``."""
    return HostsBesideLabs(config, log)
