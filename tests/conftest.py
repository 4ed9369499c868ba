# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every test may ask for: the labs, and the hosts."""

from __future__ import annotations

import itertools

import pytest

from tests.hosts.fixtures import container_host, container_hosts, vm_host
from tests.lab.fixtures import deployed_lab, fresh_lab, lab

__all__ = ["container_host", "container_hosts", "deployed_lab", "fresh_lab", "lab", "vm_host"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Take files of labs and files of hosts in turns, as far as they go: the ones wait much, the others keep every processor busy."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    hosts = [name for name in files if name.startswith("tests/hosts/")]
    turns = itertools.zip_longest([name for name in files if name not in hosts], hosts)
    items[:] = [item for turn in turns for name in turn if name for item in files[name]]
