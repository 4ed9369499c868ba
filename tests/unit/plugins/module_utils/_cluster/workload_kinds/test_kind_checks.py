# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import (
    LAYOUT_LABEL,
    SHARING_LABEL,
    OwnLabel,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kind_checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.node_kinds import LABEL, SPEC
from tests.unit.fakes.stack import node

Json = dict[str, t.Any]

OFF: Json = {"enabled": False}
KATA = {"enabled": True, "mode": "kata"}


@pytest.mark.parametrize(
    ("kind", "changes", "part"),
    [
        ("container", {"sandboxWorkloads": OFF}, ""),
        ("vm-passthrough", {}, ""),
        ("vm-vgpu", {}, ""),
        ("vm-passthrough", {"sandboxWorkloads": OFF}, "sandboxWorkloads off"),
        ("vm-passthrough", {"vfioManager": OFF}, "Set vfioManager.enabled: true"),
        ("vm-passthrough", {"sandboxDevicePlugin": {}}, "Set sandboxDevicePlugin.enabled: true"),
        ("vm-passthrough", {"sandboxWorkloads": KATA}, "Set kataSandboxDevicePlugin.enabled: true"),
        ("vm-passthrough", {"sandboxWorkloads": KATA, "kataSandboxDevicePlugin": {"enabled": True}}, ""),
        ("vm-vgpu", {"sandboxWorkloads": KATA}, "sandboxWorkloads.mode is kata"),
        ("vm-vgpu", {"vgpuManager": OFF}, "Set vgpuManager.enabled: true"),
        ("vm-vgpu", {"vgpuManager": {"enabled": True, "image": "vgpu-manager"}}, "NVIDIA publishes nowhere"),
        ("vm-vgpu", {"vgpuManager": {"enabled": True, "image": "registry.example/vgpu:1"}}, ""),
        ("vm-vgpu", {"vgpuDeviceManager": OFF}, "Set vgpuDeviceManager.enabled: true"),
        ("vm-vgpu", {"sandboxDevicePlugin": OFF}, "Set sandboxDevicePlugin.enabled: true"),
    ],
)
def test_what_a_clusterpolicy_lacks_for_a_kind(kind: str, changes: Json, part: str) -> None:
    said = kind_checks.against_policy([kind], {**SPEC, **changes}, [])
    assert part in said and bool(said) is bool(part)


def test_an_nvidiadriver_may_install_the_driver_of_vgpu_hosts() -> None:
    driver = {"spec": {"driverType": "vgpu-host-manager"}}
    assert kind_checks.against_policy(["vm-vgpu"], {**SPEC, "vgpuManager": OFF}, [{"spec": {}}, driver]) == ""


def marked(own: OwnLabel, value: str) -> Json:
    made = node()
    made["metadata"]["labels"][own.label] = value
    made["metadata"]["annotations"] = {own.mark: value}
    return made


def labelled(key: str, value: str) -> Json:
    made = node()
    made["metadata"]["labels"][key] = value
    return made


@pytest.mark.parametrize(
    ("found", "spec", "part"),
    [
        (node(), {}, ""),
        (labelled("nvidia.com/gpu.deploy.driver", "pre-installed"), {}, "of its own"),
        (node(), {"driver": {"enabled": False}}, "of its own"),
        (labelled(LABEL, "vm-vgpu"), {"driver": {"enabled": False}}, ""),
        (node(), {"driver": {"enabled": False, "useNvidiaDriverCRD": True}}, ""),
        (marked(SHARING_LABEL, "four-1"), {}, "sharing_state=absent"),
        (labelled(SHARING_LABEL.label, "theirs"), {}, ""),
        (marked(LAYOUT_LABEL, "all-1g.10gb"), {}, "mig_state=absent"),
        (marked(LAYOUT_LABEL, "all-disabled"), {}, ""),
        (labelled("nvidia.com/gpu.deploy.operands", "false"), {}, "Remove the label"),
    ],
)
def test_what_keeps_a_node_from_virtual_machines(found: Json, spec: Json, part: str) -> None:
    said = kind_checks.against_node(found, {**SPEC, **spec})
    assert part in said and bool(said) is bool(part)
    by_name = {"gpu-0000": found}
    kind_checks.refuse_nodes({"gpu-0000": "container"}, by_name, {**SPEC, **spec})
    if part:
        with pytest.raises(GpuOpsError, match="gpu-0000: "):
            kind_checks.refuse_nodes({"gpu-0000": "vm-vgpu"}, by_name, {**SPEC, **spec})


def test_unlabelled_nodes_are_a_doubt_while_kinds_are_mixed() -> None:
    def says(default: str, after: dict[str, str], labels: dict[str, str], enabled: bool = True) -> str:
        return kind_checks.unlabelled(
            after, labels, {"sandboxWorkloads": {"enabled": enabled, "defaultWorkload": default}}
        )

    both = {"a": "vm-vgpu", "b": "container"}
    assert "b has no label" in says("container", both, {"a": "vm-vgpu", "b": ""})
    assert "a, b have no label" in says("vm-vgpu", {"a": "vm-vgpu", "b": "vm-vgpu"}, {"a": "", "b": "odd"})
    assert says("container", {"a": "container"}, {"a": ""}) == ""
    assert says("container", both, both) == "" and says("vm-vgpu", both, {"a": "", "b": ""}, enabled=False) == ""


@pytest.mark.parametrize(
    ("kernel", "system", "kind", "warns"),
    [
        ("6.8.0-31-generic", "ubuntu", "vm-vgpu", True),
        ("5.15.0-119-generic", "ubuntu", "vm-vgpu", False),
        ("6.8.0-31-generic", "ubuntu", "vm-passthrough", False),
        ("6.12.0", "rhcos", "vm-vgpu", False),
        ("unknown", "ubuntu", "vm-vgpu", False),
    ],
)
def test_vgpus_on_new_kernels_are_a_doubt(kernel: str, system: str, kind: str, warns: bool) -> None:
    found = labelled("feature.node.kubernetes.io/system-os_release.ID", system)
    found["status"]["nodeInfo"]["kernelVersion"] = kernel
    assert bool(kind_checks.on_new_kernels({"gpu-0000": kind}, {"gpu-0000": found})) is warns
