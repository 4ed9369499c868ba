# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""pytest fixtures: hosts that exist during a test run. On a machine that cannot run them, their tests are skipped."""

from __future__ import annotations

import contextlib
import os
import typing as t

import pytest

from lab.errors import UnavailableError
from lab.hosts.containers.hosts import ContainerHost, ContainerHosts, Machine
from lab.hosts.containers.images import FLAVOURS
from lab.hosts.containers.releases import ReleaseHosts
from lab.hosts.vm.hosts import VmHost


@contextlib.contextmanager
def running_containers(
    purpose: str, flavours: t.Mapping[str, int], machine: Machine | None = None
) -> t.Iterator[ContainerHosts]:
    """Run container hosts during a block. The process id in their names keeps pytest-xdist's workers apart."""
    hosts = ContainerHosts(f"test-{purpose}-{os.getpid()}", print)
    try:
        hosts.up(flavours, machine)
        yield hosts
    except UnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        hosts.down()


def become_opensuse(host: ContainerHost) -> None:
    """Make an Ubuntu host claim to run openSUSE, for which the collection has no packages."""
    release = "NAME=openSUSE\\nID=opensuse-leap\\nID_LIKE=suse\\nVERSION_ID=15.6\\n"
    host.shell(f"printf '{release}' > /etc/os-release && rm --force /etc/debian_version /etc/lsb-release")


@contextlib.contextmanager
def running_release(purpose: str, suite: str) -> t.Iterator[ReleaseHosts]:
    """Run a container of a plain Debian release during a block."""
    hosts = ReleaseHosts(suite, f"test-{purpose}-{os.getpid()}", print)
    try:
        hosts.up()
        yield hosts
    except UnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        hosts.down()


@pytest.fixture(scope="module")
def container_hosts() -> t.Iterator[ContainerHosts]:
    """One host of each flavour with two H100 and nouveau loaded, shared by the tests of a module."""
    with running_containers("shared", dict.fromkeys(FLAVOURS, 1)) as hosts:
        yield hosts


@pytest.fixture
def container_host() -> t.Iterator[ContainerHost]:
    """A Debian host for a single test."""
    with running_containers("single", {"debian": 1}) as hosts:
        yield hosts.hosts()[0]


@pytest.fixture
def vm_host() -> t.Iterator[VmHost]:
    """A virtual machine that has just booted, with two H100, nouveau loaded and the IOMMU off. Deep tier."""
    host = VmHost(f"test-{os.getpid()}", print)
    try:
        yield host.up()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        host.down()
