# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import plugin_names

from lab.cluster.nodes.agents import machines
from lab.cluster.nodes.agents.machines import BOUND, VGPU_HOST, VGPUS, MachineAgents
from lab.cluster.nodes.fleet import MODELS, NOTE

Json = dict[str, t.Any]


def node(kind: str = "vm-passthrough", model: str = "H100", **notes: str) -> Json:
    annotations = {NOTE + key.replace("_", "-"): text for key, text in {"model": model, "gpus": "8", **notes}.items()}
    return {"metadata": {"name": "n", "labels": {machines.KIND: kind}, "annotations": annotations}}


def pod(app: str, key: str = "app") -> Json:
    """Return a pod that is Ready."""
    return {
        "metadata": {"name": app, "namespace": "gpu-operator", "labels": {key: app}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


VALIDATOR, VFIO = pod(machines.VALIDATOR), pod(machines.VFIO_MANAGER, "name")
HOST, MANAGER = pod(machines.VGPU_MANAGER), pod(machines.DEVICE_MANAGER)


@pytest.mark.parametrize("model", MODELS)
def test_a_gpu_has_the_name_of_the_vendors_plugin(model: str) -> None:
    resource, number = machines.resource_of(node(model=model), "vm-passthrough")
    assert (resource, number) == (plugin_names.resource_of_gpu(f"10DE:{MODELS[model].device_id}"), 8)
    vgpu, number = machines.resource_of(node(model=model), "vm-vgpu")
    assert plugin_names.vgpu_of_resource(vgpu) and number == 16
    assert machines.resource_of(node(model=model), "vm-passthrough", machines.KATA_PLUGIN) == ("nvidia.com/pgpu", 8)


@pytest.mark.parametrize(
    ("name", "found", "pods", "is_met"),
    [
        (BOUND, node(), [], False),
        (BOUND, node(), [VFIO], True),
        (BOUND, node(vfio_unbound="1"), [VFIO], False),
        (BOUND, node("vm-vgpu"), [], True),
        (VGPU_HOST, node(), [], True),
        (VGPU_HOST, node("vm-vgpu"), [], False),
        (VGPU_HOST, node("vm-vgpu"), [HOST], True),
        (VGPUS, node("vm-vgpu"), [HOST, MANAGER], False),
    ],
)
def test_what_the_validator_waits_for(name: str, found: Json, pods: list[Json], is_met: bool) -> None:
    agents = MachineAgents(t.cast("t.Any", None))
    assert agents.finds(name, found, VALIDATOR, pods) is is_met
    made = found["metadata"]["labels"] | {machines.STATE: "success"}
    with_vgpus = {"metadata": {**found["metadata"], "labels": made}}
    assert agents.finds(VGPUS, with_vgpus, VALIDATOR, [MANAGER]) is True


def test_the_plugin_waits_for_the_validator() -> None:
    agents, plugin = MachineAgents(t.cast("t.Any", None)), pod(machines.PLUGIN)
    assert [agents.finds(BOUND, node(), plugin, pods) for pods in ([VFIO], [VALIDATOR])] == [False, True]
