# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks that run on a lab, and the states that a test may start from."""

from __future__ import annotations

import pytest

from lab.cluster import Lab
from tests.support.ansible import Playbook, on


@pytest.fixture(scope="session")
def ansible(lab: Lab) -> Playbook:
    """Ansible on the shared lab."""
    return on(lab)


@pytest.fixture
def clean(ansible: Playbook) -> None:
    """Nothing installed on the shared lab."""
    ansible.set_up("clean")


@pytest.fixture(scope="module")
def crds(lab: Lab, ansible: Playbook) -> None:
    """The operator's CRDs and nothing else on the shared lab."""
    ansible.set_up("clean")
    run = ansible.module("gpuops.nvidia.operator_crds", chart_path=lab.chart)
    assert run.status == 0, run.output
