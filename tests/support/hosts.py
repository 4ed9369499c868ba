# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest fixtures: hosts that are there for a test run and gone after it. Where the machine cannot run them, their tests are skipped."""

from __future__ import annotations

import contextlib
import os
import typing as t

import pytest

from lab.errors import UnavailableError
from lab.hosts.containers.hosts import ContainerHost, ContainerHosts, Machine
from lab.hosts.containers.images import FLAVOURS
from lab.hosts.vm.hosts import VmHost


@contextlib.contextmanager
def running_containers(
    purpose: str, flavours: t.Mapping[str, int], machine: Machine | None = None
) -> t.Iterator[ContainerHosts]:
    """Container hosts for as long as a block runs. The process id in their name keeps test runs apart, also those of pytest-xdist."""
    hosts = ContainerHosts(f"test-{purpose}-{os.getpid()}", print)
    try:
        hosts.up(flavours, machine)
        yield hosts
    except UnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        hosts.down()


@pytest.fixture(scope="module")
def container_hosts() -> t.Iterator[ContainerHosts]:
    """One host of each flavour, with two H100 and nouveau loaded, for the tests of a module to share."""
    with running_containers("shared", dict.fromkeys(FLAVOURS, 1)) as hosts:
        yield hosts


@pytest.fixture
def container_host() -> t.Iterator[ContainerHost]:
    """A Debian host for one test alone."""
    with running_containers("single", {"debian": 1}) as hosts:
        yield hosts.hosts()[0]


@pytest.fixture
def vm_host() -> t.Iterator[VmHost]:
    """A virtual machine with two H100, nouveau loaded, and its IOMMU off, just booted. Only where asked for: a reboot takes 40 s and up."""
    if not os.environ.get("GPUOPS_VM"):
        pytest.skip("Virtual machines are slow: set GPUOPS_VM=1, as `make host-vm` does.")
    host = VmHost(f"test-{os.getpid()}", print)
    try:
        yield host.up()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        host.down()
