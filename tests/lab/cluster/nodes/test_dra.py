# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's DRA driver finds, publishes and refuses what NVIDIA's did."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from lab.cluster.nodes.agents.dra import devices, gates, health, parameters
from lab.cluster.nodes.agents.dra.slices import INCOMPLETE, STALE, SliceWriter
from lab.cluster.nodes.fleet import NOTE

Json = dict[str, t.Any]
RECORDED: Json = json.loads((Path(__file__).parents[4] / "lab/cluster/conformance/dra.json").read_text())
_LAYOUT = [None, {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}, {}, None, None, None, None, None]
_OF_A_REAL_MACHINE = ("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")
"""Attributes that the driver reads from sysfs, which it had none of."""
_OF_THE_LAB = ("uuid", "parentUUID", "resource.kubernetes.io/pciBusID", "driverVersion", *_OF_A_REAL_MACHINE)


def node(model: str = "H100", layout: t.Any = None, **notes: str) -> Json:
    found = {"model": model, "gpus": "8", **({"mig": json.dumps(layout)} if layout else {}), **notes}
    annotations = {NOTE + name: value for name, value in found.items()}
    return {"metadata": {"name": "gpu-0000", "uid": "u", "annotations": annotations}}


def container(text: str) -> Json:
    return {"env": [{"name": "FEATURE_GATES", "value": text}]}


@pytest.mark.parametrize(("text", "said"), RECORDED["gates"])
def test_the_driver_refuses_gates_in_the_vendors_words(text: str, said: str) -> None:
    with pytest.raises(gates.GateError) as error:
        gates.of(container(text))
    assert f"Error: {error.value}" == said


def test_gates_have_defaults_and_groups() -> None:
    assert gates.of({}) == frozenset(gates.BETA)
    assert gates.of(container("MPSSupport=1, CrashOnNVLinkFabricErrors=f")) == {
        "MPSSupport",
        "IMEXDaemonsWithDNSNames",
        "ComputeDomainCliques",
    }
    assert gates.of(container("AllBeta=false")) == frozenset()


@pytest.mark.parametrize(("text", "given", "said"), RECORDED["parameters"])
def test_the_driver_refuses_parameters_in_the_vendors_words(text: str, given: Json, said: str) -> None:
    try:
        parameters.assert_valid(parameters.decode(given), gates.of(container(text)))
        words = ""
    except parameters.ParameterError as error:
        is_decoded = not str(error).startswith("error decoding")
        words = f"error validating GPU config: {error}" if is_decoded else str(error)
    if said.startswith("not an Interface"):
        assert words.startswith("error decoding"), "an object of the API that is no configuration"
    else:
        assert words == said


def opaque(kind: str, *requests: str, source: str = "FromClaim", driver: str = "gpu.nvidia.com") -> Json:
    given = {"apiVersion": parameters.VERSION, "kind": kind}
    return {"source": source, "requests": list(requests), "opaque": {"driver": driver, "parameters": given}}


def allocation(*configs: Json, device: str = "gpu-0") -> Json:
    result = {"driver": "gpu.nvidia.com", "pool": "gpu-0000", "device": device, "request": "gpu"}
    return {"devices": {"results": [result], "config": list(configs)}}


def test_parameters_must_be_for_the_devices_that_they_name() -> None:
    types = {"gpu-0": "gpu"}
    parameters.of_devices(allocation(opaque("MigDeviceConfig"), opaque("GpuConfig", "gpu")), types, ())
    parameters.of_devices(allocation(opaque("Other", driver="another.driver")), types, ())
    with pytest.raises(
        parameters.ParameterError, match=r'cannot apply MigDeviceConfig to device "gpu-0" of type "gpu"'
    ):
        parameters.of_devices(allocation(opaque("MigDeviceConfig", "gpu", source="FromClass")), types, ())
    with pytest.raises(parameters.ParameterError, match='allocatable not found for device "gpu-9"'):
        parameters.of_devices(allocation(device="gpu-9"), types, ())
    with pytest.raises(parameters.ParameterError, match="error getting opaque device configs: error decoding"):
        parameters.of_devices(allocation(opaque("GPUConfig")), types, ())


def known(device: Json) -> Json:
    """Return what a device of the lab and one of the recording must have in common."""
    attributes = {key: value for key, value in device["attributes"].items() if key not in _OF_THE_LAB}
    attributes["cudaDriverVersion"] = {"version": "13.0.0"}
    return {**device, "attributes": attributes}


def test_the_devices_are_those_that_the_vendors_driver_published() -> None:
    [mine] = devices.gpu_slices(node(layout=_LAYOUT), "580.95.05", ())
    theirs = RECORDED["slice"]["devices"]
    by_name = {device["name"]: device for device in mine["devices"]}
    # The instances of the recording had been placed by hand, with the larger one last.
    assert {name.rpartition("-")[0] for name in by_name} == {device["name"].rpartition("-")[0] for device in theirs}
    for device in theirs:
        if device["name"] in by_name:
            same = by_name[device["name"]]
            assert known(same) == known(device)
            assert set(same["attributes"]) - set(device["attributes"]) == set(_OF_A_REAL_MACHINE)
            assert same["attributes"]["driverVersion"] == device["attributes"]["driverVersion"]
    assert "gpu-2" not in by_name, "a GPU without instances is in no slice when MIG is on"


def test_dynamic_partitions_use_up_counters() -> None:
    first, *others = devices.gpu_slices(node(), "580.95.05", ("DynamicMIG",))
    assert [item["name"] for item in first["sharedCounters"]] == [f"gpu-{index}-counter-set" for index in range(8)]
    names = {device["name"]: device for device in others[0]["devices"]}
    assert "gpu-0" in names and "gpu-0-mig-1g10gbme-20-3" not in names and "gpu-0-mig-1g10gb-me-20-3" in names
    used = names["gpu-0-mig-3g40gb-9-4"]["consumesCounters"][0]["counters"]
    assert {key for key in used if key.startswith("memory-slice")} == {
        f"memory-slice-{number}" for number in range(4, 8)
    }
    assert used["copy-engines"] == {"value": "3"} and "uuid" not in names["gpu-0-mig-3g40gb-9-4"]["attributes"]


def test_a_gpu_of_ampere_is_offered_as_a_whole_or_in_parts() -> None:
    layout: list[Json | None] = [None, {}, *[None] * 6]
    first, whole, parts, *_ = devices.gpu_slices(node("A100", layout), "580.95.05", ("DynamicMIG",))
    assert [item["name"] for item in first["sharedCounters"]] == ["gpu-1-counter-set"]
    assert [device["name"] for device in whole["devices"]] == ["gpu-0"]
    assert all("-mig-" in device["name"] for device in parts["devices"])


@pytest.mark.parametrize(
    ("shares", "default", "least"), [("memory", "81559Mi", "1Mi"), ("unlimited", "0", "0"), ("4", "0", "0")]
)
def test_shares_of_a_device(shares: str, default: str, least: str) -> None:
    [item] = devices.gpu_slices(node(), "580.95.05", ("ConsumableShares",), shares)
    device = item["devices"][0]
    policy = device["capacity"]["memory"]["requestPolicy"]
    assert device["allowMultipleAllocations"] and policy["default"] == default
    assert policy["validRange"] == {"min": least, "max": "81559Mi", "step": "1Mi"}
    assert ("shares" in device["capacity"]) == (shares == "4")


def test_no_shares_without_a_number() -> None:
    [item] = devices.gpu_slices(node(), "580.95.05", ("ConsumableShares",))
    assert "allowMultipleAllocations" not in item["devices"][0]


def test_taints_follow_from_what_happens_after_the_start() -> None:
    slices = devices.gpu_slices(node(), "580.95.05", ())
    before = health.signs(node(xid="48"))
    assert health.tainted(slices, before, before) == slices
    [sick] = health.tainted(slices, before, health.signs(node(xid="79")))
    assert [device.get("taints") for device in sick["devices"][:2]] == [
        [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}],
        None,
    ]
    [harmless] = health.tainted(slices, before, health.signs(node(xid="31")))
    assert harmless["devices"][0]["taints"][0]["effect"] == "None"
    [lost] = health.tainted(slices, before, health.signs(node(**{"gpu-lost": "true", "xid": "79"})))
    assert [len(device["taints"]) for device in lost["devices"]] == [2, *[1] * 7]


class _Api:
    """An API that keeps what is written."""

    def __init__(self) -> None:
        self.items: dict[str, Json] = {}

    def create(self, path: str, body: Json) -> Json:
        name = f"{body['metadata']['generateName']}{len(self.items)}"
        self.items[name] = {**body, "metadata": {**body["metadata"], "name": name}}
        return self.items[name]

    def request(self, method: str, path: str, body: Json) -> Json:
        self.items[path.rpartition("/")[2]] = body
        return body

    def delete(self, path: str) -> bool:
        return self.items.pop(path.rpartition("/")[2]) is not None


def test_the_generation_rises_only_if_a_change_takes_more_than_one_request() -> None:
    api = _Api()
    writer = SliceWriter(t.cast("t.Any", api))

    def publish(wanted: list[Json], fault: str = "") -> list[tuple[int, int]]:
        writer.publish(node(), "gpu.nvidia.com", list(api.items.values()), wanted, fault)
        pools = [item["spec"]["pool"] for item in api.items.values()]
        return [(pool["generation"], pool["resourceSliceCount"]) for pool in pools]

    one, other = {"devices": [{"name": "gpu-0"}]}, {"devices": [{"name": "gpu-1"}]}
    assert publish([one]) == [(1, 1)]
    [name] = api.items
    assert name.startswith(RECORDED["slice"]["generateName"]), "the names are those of the vendor's driver"
    owner = api.items[name]["metadata"]["ownerReferences"][0]
    assert RECORDED["slice"]["owner"].items() <= owner.items() and owner["name"] == "gpu-0000"
    assert publish([other]) == [(1, 1)]
    assert publish([one, other]) == [(2, 2), (2, 2)]
    assert publish([one, other], INCOMPLETE) == [(3, 3), (3, 3)]
    assert sorted(publish([one, other], STALE)) == [(3, 2), (4, 2), (4, 2)]
    assert publish([one]) == [(4, 1)]
    writer.remove(list(api.items.values()))
    assert not api.items


def test_a_node_offers_a_channel_and_a_daemon() -> None:
    assert devices.types(devices.domain_slices()) == {"channel-0": "channel", "daemon-0": "daemon"}
