# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible on the shared lab, and the states from which a test may start."""

from __future__ import annotations

import pytest

from lab.cluster import Lab
from tests.support.ansible import Playbook, on


@pytest.fixture(scope="session")
def ansible(lab: Lab) -> Playbook:
    """Ansible with the shared lab as its cluster."""
    return on(lab)


@pytest.fixture
def clean(ansible: Playbook) -> None:
    """Remove the stack from the shared lab."""
    ansible.set_up("clean")


@pytest.fixture(scope="module")
def crds(lab: Lab, ansible: Playbook) -> None:
    """Leave only the operator's CRDs on the shared lab."""
    ansible.set_up("clean")
    run = ansible.module("gpuops.nvidia.operator_crds", chart_path=lab.chart)
    assert run.status == 0, run.output
