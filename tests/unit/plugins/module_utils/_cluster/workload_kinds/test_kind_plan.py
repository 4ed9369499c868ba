# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import node_work
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kind_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kind_plan import Switch, Target
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import Kind

from tests.unit.fakes.node_kinds import A10, LABEL, SPEC
from tests.unit.fakes.stack import node

Json = dict[str, t.Any]

KEY = "nvidia.com/gpu.deploy.sandbox-device-plugin"


def change(kind: str = "vm-passthrough", found: Json | None = None, young: bool = False, spec: Json = SPEC) -> Switch:
    return kind_plan.change_of(found or node(), Target(Kind.of(kind, spec), kind), spec, young)


def test_what_becomes_of_a_node() -> None:
    switching, labelling = change(), change("container")
    assert (switching.step, switching.switches, switching.least) == ("waiting", True, 8)
    assert (labelling.step, labelling.switches, labelling.relabels) == ("waiting", False, True)
    right = node()
    right["metadata"]["labels"][LABEL] = "container"
    assert change("container", right).step == "nothing"
    right["status"]["allocatable"] = {}
    assert change("container", right).state == "degraded"
    assert change("container", right, young=True).proves
    off = {"sandboxWorkloads": {"enabled": False}}
    assert change("container", right, spec=off).state == "unchanged"


def test_mig_devices_and_nodes_that_are_switched_off_tell_no_number_of_gpus() -> None:
    found = node()
    found["metadata"]["labels"] |= {"nvidia.com/gpu.product": "NVIDIA-H100-MIG-1g.10gb", "nvidia.com/gpu.count": "56"}
    assert change(found=found).least == 1
    found["metadata"]["labels"] |= {LABEL: "container", "nvidia.com/gpu.deploy.operands": "false"}
    found["status"]["allocatable"] = {}
    assert change("container", found).state == "unchanged"


def test_a_name_that_the_node_had_before_is_no_gpu_of_the_new_kind() -> None:
    found = node()
    found["status"]["allocatable"] |= {"nvidia.com/CX7": "2"}
    assert change(found=found).others == {"nvidia.com/CX7"}
    found["metadata"]["labels"][LABEL] = "vm-passthrough"
    found["status"]["allocatable"] = {A10: "8"}
    assert change("vm-vgpu", found).others == frozenset()


def test_a_paused_operand_makes_a_degraded_node_due() -> None:
    found = node()
    found["metadata"]["labels"] |= {LABEL: "vm-passthrough", KEY: "paused-for-vgpu-change"}
    row = change(found=found)
    kind_plan.mark_stuck(row, found, {})
    assert (row.state, row.paused, row.repaired) == ("degraded", [KEY], [])
    kind_plan.mark_stuck(row, found, {KEY: "true"})
    assert (row.proves, row.paused, row.repaired, row.degraded) == (True, [], [KEY], "")


def test_the_end_of_an_error_says_what_is_held_and_what_is_left() -> None:
    rows = [change(), change()]
    rows[0].fail("The driver stays")
    rows[0].keep("workload-kind")
    assert node_work.failure(rows, "").msg.startswith("gpu-0000: The driver stays")
    assert "gpu-0000 stays cordoned. Not begun: gpu-0000." in node_work.closing(rows)
    assert node_work.failure(rows, "Enough.").msg.startswith("Enough. ")
