# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import assign, config
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import cpu_node, node

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def made(
    name: str = "x", strategy: str = "time-slicing", resource: str = GPU, replicas: int = 4, **more: object
) -> dict:
    shares = [{"name": resource, "replicas": replicas}]
    return {"name": name, "strategy": strategy, "resources": shares, "rename_by_default": False, **more}


def configuration(**options: object) -> config.Configuration:
    return config.read(made(**options))  # type: ignore[arg-type]


def labelled(number: int = 0, **labels: str) -> dict:
    found = node(number)
    found["metadata"]["labels"] |= {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return found


def refused(why: str, *arguments: object) -> None:
    with pytest.raises(GpuOpsError) as error:
        assign.refuse_impossible(*arguments)  # type: ignore[arg-type]
    assert why in error.value.msg


# ---- which nodes ----------------------------------------------------------------------------------------------------


def test_nodes_are_chosen_by_name_and_by_label() -> None:
    fleet = [labelled(0, pool="a"), labelled(1, pool="b"), labelled(2, pool="b"), cpu_node()]
    choices = assign.choices_of([made("one", nodes=["gpu-0000", "gpu-0000"]), made("two", node_selector={"pool": "b"})])
    found = assign.assign(choices, fleet, {})
    assert {name: each.name for name, each in found.items()} == {
        "gpu-0000": "one",
        "gpu-0001": "two",
        "gpu-0002": "two",
    }


def test_a_node_is_found_by_its_product_before_and_after_it_is_shared() -> None:
    fleet = [labelled(0, nvidia_com__gpu_product="Tesla-T4-SHARED"), labelled(1, nvidia_com__gpu_product="Tesla-T4")]
    for product in ("Tesla-T4", "Tesla-T4-SHARED"):
        choices = assign.choices_of([made(node_selector={"nvidia.com/gpu.product": product})])
        assert list(assign.assign(choices, fleet, {})) == ["gpu-0000", "gpu-0001"]


@pytest.mark.parametrize("label", ["nvidia.com/gpu.replicas", "nvidia.com/device-plugin.config"])
def test_a_label_that_changes_with_the_configuration_chooses_no_nodes(label: str) -> None:
    with pytest.raises(GpuOpsError, match="changes with the configuration"):
        assign.choices_of([made(node_selector={label: "1"})])


def test_an_empty_selector_chooses_all_nodes_with_gpus() -> None:
    choices = assign.choices_of([made(node_selector={})])
    assert list(assign.assign(choices, [node(0), cpu_node()], {})) == ["gpu-0000"]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"nodes": ["gpu-7"]}, wording("Configuration x: the cluster has no node gpu-7. Correct nodes.")),
        (
            {"nodes": ["cpu-0000"]},
            wording("Configuration x: cpu-0000 gives no GPUs to containers. Remove it from nodes."),
        ),
        (
            {"node_selector": {"pool": 7}},
            wording("Configuration x: no node has the labels {'pool': '7'}. Correct node_selector."),
        ),
        (
            {"node_selector": {"feature.node.kubernetes.io/cpu-model.vendor_id": "Intel"}},
            wording(
                "Configuration x: no node that has the labels {'feature.node.kubernetes.io/cpu-model.vendor_id': 'Intel'} gives GPUs to containers. Correct node_selector."
            ),
        ),
    ],
)
def test_a_choice_of_no_useful_node_is_refused(choice: dict, said: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        assign.assign(assign.choices_of([made(**choice)]), [node(0), cpu_node()], {})
    assert error.value.msg == said and error.value.msg.startswith("Configuration x: ")


def test_nodes_for_virtual_machines_are_left_out() -> None:
    fleet = [labelled(0, nvidia_com__gpu_workload_config="vm-passthrough"), node(1)]
    choices = assign.choices_of([made(node_selector={})])
    assert list(assign.assign(choices, fleet, {"sandboxWorkloads": {"enabled": True}})) == ["gpu-0001"]


def test_overlapping_choices_are_refused_with_both_names() -> None:
    choices = assign.choices_of([made("a", nodes=["gpu-0000"]), made("b", node_selector={})])
    with pytest.raises(GpuOpsError) as error:
        assign.assign(choices, [node(0)], {})
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "Configurations a and b both choose node gpu-0000. Let only one of them choose it."
    )


# ---- what cannot work -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "spec", "said"),
    [
        ({"strategy": "mps"}, {"mig": {"strategy": "mixed"}}, "does not start with MPS and the MIG strategy mixed"),
        (
            {"resource": SLICE},
            {"mig": {"strategy": "single"}},
            "no node offers nvidia.com/mig-1g.10gb with the MIG strategy",
        ),
        ({"resource": SLICE}, {}, "with the MIG strategy none"),
        (
            {"strategy": "mps", "fail_requests_greater_than_one": False},
            {"devicePlugin": {"version": "v0.19.3"}},
            "the device plugin v0.19.3 ignores failRequestsGreaterThanOne",
        ),
    ],
)
def test_what_the_cluster_policy_excludes_is_refused(options: dict, spec: dict, said: str) -> None:
    refused(said, {"gpu-0000": configuration(**options)}, {"gpu-0000": node()}, spec)


def test_flags_that_the_operator_overrides_are_explained() -> None:
    given = config.of_document("x", {"flags": {"migStrategy": "mixed"}})
    refused("the operator sets MIG_STRATEGY=single", {"n": given}, {"n": node()}, {"mig": {"strategy": "single"}})
    assign.refuse_impossible({"n": given}, {"n": node()}, {})
    packed = config.of_document("x", {"flags": {"plugin": {"sharedDevicesAllocationPolicy": "packed"}}})
    refused("ignores flags.plugin.shared", {"n": packed}, {"n": node()}, {"devicePlugin": {"version": "v0.18.1"}})
    assign.refuse_impossible({"n": packed}, {"n": node()}, {"devicePlugin": {"version": "v0.20.0"}})


@pytest.mark.parametrize(
    ("capability", "replicas", "said"),
    [
        (("9", "0"), 48, ""),
        (("9", "0"), 49, "MPS serves at most 48 pods on GPUs of compute capability 9.0, and replicas is 49"),
        (("10", "0"), 48, ""),
        (("7", "5"), 48, ""),
        (("7", "0"), 16, ""),
        (("7", "0"), 17, "MPS serves at most 16 pods on GPUs of compute capability 7.0"),
        (("6", "1"), 17, "at most 16"),
        (None, 48, ""),
        (None, 49, "at most 48 pods on a GPU"),
    ],
)
def test_mps_has_a_limit_for_each_generation(capability: tuple | None, replicas: int, said: str) -> None:
    found = node()
    if capability:
        found["metadata"]["labels"]["nvidia.com/gpu.compute.major"] = capability[0]
        found["metadata"]["labels"]["nvidia.com/gpu.compute.minor"] = capability[1]
    why = assign.against_node(configuration(strategy="mps", replicas=replicas), found)
    assert said in why and bool(said) == bool(why)
    assert assign.against_node(configuration(replicas=1000), found) == ""


@pytest.mark.parametrize(("product", "offered"), [("A100-MIG-1g.10gb", {GPU: "7"}), ("A100", {GPU: "1", SLICE: "7"})])
def test_mps_on_mig_devices_is_refused(product: str, offered: dict) -> None:
    found = labelled(nvidia_com__gpu_product=product)
    found["status"]["capacity"] = offered
    refused(
        "its GPUs are divided into MIG devices", {"gpu-0000": configuration(strategy="mps")}, {"gpu-0000": found}, {}
    )


def test_a_node_without_any_of_the_resources_is_refused() -> None:
    found = node()
    found["status"]["capacity"] = {"nvidia.com/mig-2g.20gb": "3"}
    spec = {"mig": {"strategy": "mixed"}}
    refused(
        f"it shares {SLICE}, and the node offers nvidia.com/mig-2g.20gb",
        {"n": configuration(resource=SLICE)},
        {"n": found},
        spec,
    )
    found["status"]["capacity"] = {"nvidia.com/mig-1g.10gb.shared": "3"}
    assign.refuse_impossible({"n": configuration(resource=SLICE)}, {"n": found}, spec)
    found["status"]["capacity"] = {}
    assign.refuse_impossible({"n": configuration(resource=SLICE)}, {"n": found}, spec)


def test_only_labels_of_others_are_refused() -> None:
    fleet = {f"gpu-{number:04}": labelled(number) for number in range(3)}
    fleet["gpu-0001"]["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "ours"
    fleet["gpu-0002"]["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "theirs"
    plain = dict.fromkeys(fleet, config.PLAIN)

    def owns(found: dict) -> bool:
        return bool(found["metadata"]["labels"]["nvidia.com/device-plugin.config"] == "ours")

    assign.refuse_foreign({name: plain[name] for name in ("gpu-0000", "gpu-0001")}, fleet, owns)
    with pytest.raises(GpuOpsError, match=r"of gpu-0002 \(theirs\)"):
        assign.refuse_foreign(plain, fleet, owns)
    same = config.read(made("x"))
    fleet["gpu-0002"]["metadata"]["labels"]["nvidia.com/device-plugin.config"] = same.key
    assign.refuse_foreign({"gpu-0002": same}, fleet, owns)


def test_two_configurations_of_one_name_are_refused() -> None:
    with pytest.raises(GpuOpsError) as error:
        assign.choices_of([made("x"), made("y"), made("x")])
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("configs has two configurations with the name x. Rename one of them.")


def test_an_older_device_plugin_minds_neither_mps_nor_the_flag_alone() -> None:
    spec = {"devicePlugin": {"version": "v0.19.3"}}
    for options in ({"strategy": "mps"}, {"fail_requests_greater_than_one": False}):
        assign.refuse_impossible({"gpu-0000": configuration(**options)}, {"gpu-0000": node()}, spec)
