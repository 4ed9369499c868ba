# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run every target in targets/, each an Ansible role that tests one module, role or playbook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ansible import Playbook

pytestmark = pytest.mark.slow("each target checks, runs, checks and runs again on a lab")

HERE = Path(__file__).parent
TARGETS = sorted(folder.name for folder in (HERE / "targets").iterdir() if not folder.name.startswith("setup_"))


WIDE = (
    # tests/integration/test_sharing.py shows in one run what this target shows option by option.
    "module_gpu_sharing",
    # tests/integration/test_gpucluster.py installs a GPUCluster and removes it.
    "module_gpucluster",
    # The roles operator, preflight and verify use these modules.
    "module_clusterpolicy_info",
    "module_gpu_preflight_info",
    "module_gpu_stack_info",
    "module_operator_chart_info",
    "module_operator_crds",
    # tests/integration/test_mig.py publishes layouts, test_diagnose.py reports, test_site.py taints, sets quotas and
    # verifies with jobs. tests/roles/test_preflight.py checks hosts, and test_grants.py a cluster.
    "module_dcgm_exporter_info",
    "module_gpu_smoke_test",
    "module_mig_layout",
    "role_preflight",
    "role_report",
    "role_scheduling",
    # tests/integration/test_site.py deploys, verifies and removes a stack, test_maintenance.py drains nodes.
    "module_node_maintenance",
    "role_operator",
    "role_verify",
)


@pytest.mark.parametrize(
    "target", [pytest.param(name, marks=pytest.mark.wide if name in WIDE else ()) for name in TARGETS]
)
def test_target(target: str, ansible: Playbook) -> None:
    run = ansible.run(HERE / "run_target.yml", target=target)
    assert run.status == 0, run.output
    assert "Traceback" not in run.output, run.output
