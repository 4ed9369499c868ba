# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds import kinds
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import Kind
from inline_snapshot import snapshot as wording

from tests.unit.fakes import node_kinds
from tests.unit.fakes.node_kinds import A10, DAEMONSETS_OF_ALL, DEPLOY, OF_KIND, VGPU, operand
from tests.unit.fakes.stack import node

Json = dict[str, t.Any]

NODE = "gpu-0000"
CONTAINER, PASSTHROUGH, VGPUS = Kind("container"), Kind("vm-passthrough"), Kind("vm-vgpu")
KATA = Kind.of(
    "vm-passthrough",
    {
        "sandboxWorkloads": {"mode": "kata"},
        "kataSandboxDevicePlugin": {"env": [{"name": "P_GPU_ALIAS", "value": "h100"}, {"name": "OTHER", "value": "x"}]},
    },
)


def of_kind(name: str, **resources: str) -> Json:
    """Return a node as it is once the operator has labelled it for a kind."""
    made = node()
    labels = {key: value for key, value in made["metadata"]["labels"].items() if not key.startswith(DEPLOY)}
    made["metadata"]["labels"] = labels | {DEPLOY + end: "true" for end in OF_KIND[name]}
    offers = {f"nvidia.com/{key}": number for key, number in resources.items()} or node_kinds.OFFERS[name]
    made["status"]["allocatable"] = {"cpu": "64", **offers}
    return made


def running(name: str) -> list[Json]:
    return [operand(app, NODE) for app in OF_KIND[name].values() if app]


# ---- what a node shows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CONTAINER, PASSTHROUGH, VGPUS])
def test_a_node_that_offers_what_its_kind_does_lacks_nothing(kind: Kind) -> None:
    shown = of_kind(kind.name)
    assert kind.unlabelled(shown) == kind.missing(shown) == ""
    assert sum(kind.offered(shown).values()) in (8, 16)


def test_the_names_of_kata_count_in_its_mode_only() -> None:
    for name in ("pgpu", "h100"):
        assert KATA.missing(of_kind("vm-passthrough", **{name: "8"})) == ""
        assert PASSTHROUGH.missing(of_kind("vm-passthrough", **{name: "8"}))
    assert KATA.missing(of_kind("vm-passthrough", nvswitch="4")) == PASSTHROUGH.missing(
        of_kind("vm-passthrough", x="1")
    )
    assert KATA.missing(of_kind("vm-passthrough", pgpu="8", nvswitch="4")) == ""
    assert KATA.missing(of_kind("vm-passthrough", pgpu="4", nvswitch="4"), least=8) != ""
    switches = [{"name": "NVSWITCH_ALIAS", "value": "sw"}, {"name": "P_GPU_ALIAS", "value": ""}]
    spec = {"sandboxWorkloads": {"mode": "kata"}, "kataSandboxDevicePlugin": {"env": switches}}
    assert Kind.of("vm-passthrough", spec).switches == ("nvidia.com/nvswitch", "nvidia.com/sw")
    assert KATA.plugin == "kata-sandbox-device-plugin" and KATA.aliases == ("nvidia.com/h100",)
    assert Kind.of("vm-vgpu", {}).plugin == "sandbox-device-plugin"


@pytest.mark.parametrize(
    ("kind", "resources", "says"),
    [
        (PASSTHROUGH, {"gpu": "8"}, "the node still offers 8 of nvidia.com/gpu"),
        (PASSTHROUGH, {"mig-1g.10gb": "7"}, "the node still offers 7 of nvidia.com/mig-1g.10gb"),
        (PASSTHROUGH, {"NVIDIA_A10-12Q": "2"}, "the node still offers 2 of nvidia.com/NVIDIA_A10-12Q"),
        (VGPUS, {"GA102GL_A10": "8"}, "the node still offers 8 of nvidia.com/GA102GL_A10"),
        (CONTAINER, {"GA102GL_A10": "8", "gpu": "8"}, "the node still offers 8 of nvidia.com/GA102GL_A10"),
        (CONTAINER, {"hostdev": "8"}, "no GPUs to containers"),
        (PASSTHROUGH, {"hostdev": "8"}, "no GPUs to virtual machines"),
        (PASSTHROUGH, {"GA102_HIGH_DEFINITION_AUDIO_CONTROLLER": "8"}, "no GPUs to virtual machines"),
        (PASSTHROUGH, {"GH100_H100_NVSWITCH": "4"}, "no GPUs to virtual machines"),
        (PASSTHROUGH, {"GA102GL_A10": "0"}, "no GPUs to virtual machines"),
        (VGPUS, {"memory": "3Gi"}, "no GPUs to virtual machines"),
    ],
)
def test_what_proves_no_kind(kind: Kind, resources: dict[str, str], says: str) -> None:
    assert says in kind.missing(of_kind(kind.name, **resources))


def test_a_resource_that_was_there_before_is_no_new_gpu_and_too_few_are_no_proof() -> None:
    shown = of_kind("vm-passthrough", GX300_NEW="4")
    assert PASSTHROUGH.missing(shown) == "" and PASSTHROUGH.missing(shown, others={"nvidia.com/GX300_NEW"})
    assert PASSTHROUGH.missing(of_kind("vm-passthrough", **{"2236": "4"})) == ""
    assert PASSTHROUGH.missing(shown, least=8) == "the node offers 4 of nvidia.com/GX300_NEW, and has 8 GPUs"


def test_a_node_that_the_operator_has_not_labelled_yet() -> None:
    says = "the operator has not given the node the labels of its kind yet"
    without = of_kind("vm-vgpu")
    del without["metadata"]["labels"][f"{DEPLOY}client"]
    assert VGPUS.unlabelled(without) == "", "older operators have no client"
    del without["metadata"]["labels"][f"{DEPLOY}vgpu-manager"]
    assert VGPUS.unlabelled(without) == says
    assert PASSTHROUGH.unlabelled(of_kind("container")) == CONTAINER.unlabelled(of_kind("vm-vgpu")) == says
    shown = of_kind("container")
    shown["metadata"]["labels"] |= {f"{DEPLOY}mig-manager": "true", f"{DEPLOY}sandbox-validator": ""}
    assert CONTAINER.unlabelled(shown) == ""
    shown["metadata"]["labels"][f"{DEPLOY}device-plugin"] = "paused-for-mig-change"
    assert CONTAINER.unlabelled(shown) == (
        "its label nvidia.com/gpu.deploy.device-plugin=paused-for-mig-change keeps the operand away"
    )


@pytest.mark.parametrize(
    ("resource", "is_one"),
    [
        (A10, True), (VGPU, True), ("nvidia.com/pgpu", True), ("nvidia.com/2236", True), ("nvidia.com/own", True),
        ("nvidia.com/gpu", False), ("nvidia.com/mig-1g.10gb", False), ("nvidia.com/hostdev", False),
        ("intel.com/QAT", False),
    ],
)  # fmt: skip
def test_which_pods_belong_to_machines(resource: str, is_one: bool) -> None:
    assert kinds.is_for_machines(resource, ("nvidia.com/own",)) is is_one


# ---- its operands --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CONTAINER, PASSTHROUGH, VGPUS])
def test_a_node_is_proved_by_all_operands_of_its_kind(kind: Kind) -> None:
    assert kinds.unproved(kind, of_kind(kind.name), DAEMONSETS_OF_ALL, running(kind.name)) == ""


def test_an_operand_that_is_not_ready_or_missing_or_left_over_is_named() -> None:
    shown, pods = of_kind("vm-passthrough"), running("vm-passthrough")
    without = [pod for pod in pods if "validator" not in pod["metadata"]["name"]]

    def says(pods: list[Json], daemonsets: list[Json] = DAEMONSETS_OF_ALL) -> str:
        return kinds.unproved(PASSTHROUGH, shown, daemonsets, pods)

    assert says(without) == wording("nvidia-sandbox-validator has no pod there yet")
    unready = operand("nvidia-sandbox-validator", NODE, ready=False)
    assert says([*without, unready]) == "pod nvidia-sandbox-validator-gpu-0000 is not Ready"
    ending = operand("nvidia-sandbox-validator", NODE)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert says([*without, ending]) == "pod nvidia-sandbox-validator-gpu-0000 is not Ready"
    left = operand("nvidia-dcgm", NODE)
    assert says([*pods, left]) == wording("pod nvidia-dcgm-gpu-0000 of its former kind is still there")
    fewer = [each for each in DAEMONSETS_OF_ALL if "plugin" not in each["metadata"]["name"]]
    assert says(pods, fewer) == "no DaemonSet puts the sandbox-device-plugin on the node"
    unowned = operand("nvidia-cuda-validator", NODE, ready=False)
    unowned["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "x"}]
    assert says([*pods, unowned]) == ""


def test_a_daemonset_of_somebody_else_is_no_operand() -> None:
    theirs = node_kinds.daemonset("client", "theirs")
    shown, pods = of_kind("container"), running("container")
    assert kinds.unproved(CONTAINER, shown, [*DAEMONSETS_OF_ALL, theirs], pods) == ""
    assert kinds.deploys({"spec": {"template": {"spec": {"nodeSelector": {DEPLOY + "unknown": "true"}}}}}) == ""
    assert kinds.deploys({"spec": {"template": {"spec": {}}}}) == ""


# ---- paused labels -------------------------------------------------------------------------------------------------


def test_a_paused_label_is_repaired_only_without_its_manager() -> None:
    shown, pods = of_kind("vm-vgpu"), running("vm-vgpu")
    plugin, validator = f"{DEPLOY}sandbox-device-plugin", f"{DEPLOY}sandbox-validator"
    shown["metadata"]["labels"] |= {
        plugin: "paused-for-vgpu-change",
        validator: "mine_paused-for-cc-mode-change",
        f"{DEPLOY}dcgm": "paused-for-vgpu-change",
        f"{DEPLOY}client": "paused-for-driver-upgrade",
    }
    assert set(kinds.paused(VGPUS, shown)) == {plugin, validator}
    assert kinds.stuck(VGPUS, shown, DAEMONSETS_OF_ALL, pods) == {validator: "mine"}
    gone = [pod for pod in pods if "vgpu-device-manager" not in pod["metadata"]["name"]]
    assert kinds.stuck(VGPUS, shown, DAEMONSETS_OF_ALL, gone) == {plugin: "true", validator: "mine"}
