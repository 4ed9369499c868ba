# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nodes offer by claims, compared with what they have."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Finding
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import claims, offered_devices, xid
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit import diagnosed
from tests.unit.fakes import claimed

NODE = "gpu-0000"
LOST = {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}
NONE: dict[str, int] = {"nvidia.com/gpu": 0}


def found(*slices: Json, row: Json | None = None, labels: Json | None = None, **kinds: t.Any) -> dict[str, Finding]:
    rules = (*offered_devices.RULES, *claims.RULES, *xid.RULES)
    stack = diagnosed.stack(row or diagnosed.row(allocatable=NONE, gpus=2, claimable=True))
    node = {"metadata": {"name": NODE, "labels": labels or {}}}
    given = {"nodes": [node], "resourceslices": list(slices), "draplugins": [claimed.plugin()], **kinds}
    taken = "2026-11-28T11:00:00Z"
    objects = {kind: items for kind, items in given.items() if items is not None}
    return diagnosed.found(rules, taken=taken, stack=stack, objects=objects)


def whole(*devices: Json) -> Json:
    return claimed.slice_of(0, *devices)


def held(name: str = "gpu", driver: str = "gpu.nvidia.com", deleted: str | None = None, used: bool = True) -> Json:
    pods = ["train"] if used else []
    return claimed.claim(name, NODE, "gpu-0", pods=pods, driver=driver, deleted=deleted)


def tainted(number: int, key: str, value: str) -> Json:
    return {**claimed.gpu(number), "taints": [claimed.taint(key, value)]}


def test_a_node_that_offers_all_its_gpus_by_claims_is_well() -> None:
    both = [held(), held("b", driver="compute-domain.nvidia.com")]
    assert found(whole(), resourceclaims=both) == {}


def test_a_pool_lacks_slices() -> None:
    (finding,) = found(claimed.slice_of(0, claimed.gpu(0), total=3), row=diagnosed.row(gpus=1, allocatable={})).values()
    assert (finding.code, finding.nodes) == ("ResourcePoolIncomplete", (NODE,))
    assert "1 of 3 slices" in finding.cause


def test_gpus_are_offered_twice() -> None:
    (finding,) = found(whole(), row=diagnosed.row(gpus=2)).values()
    assert (finding.code, finding.severity, finding.certainty) == ("GPUsOfferedTwice", "warning", "certain")
    assert [quote.text for quote in finding.quotes] == [
        "2 devices of gpu.nvidia.com", "allocatable: 8 nvidia.com/gpu",
    ]  # fmt: skip


def test_a_lost_gpu_taints_all_devices() -> None:
    devices = [{**claimed.gpu(number), "taints": [LOST]} for number in range(2)]
    (finding,) = found(whole(*devices)).values()
    assert (finding.code, finding.nodes) == ("DRADevicesLost", (NODE,))


def test_a_taint_with_an_xid_is_judged_as_the_xid_is() -> None:
    by_taint = found(whole(claimed.gpu(0), tainted(1, "gpu.nvidia.com/xid", "79")))
    line = diagnosed.log("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", "", "", "kernel")
    by_log = diagnosed.found(xid.RULES, line)
    assert list(by_taint) == list(by_log) == ["XidOffTheBus"]
    (quote,) = by_taint["XidOffTheBus"].quotes
    assert quote.text == "taint gpu.nvidia.com/xid=79:NoSchedule of the device gpu-1"
    assert by_taint["XidOffTheBus"].objects == by_log["XidOffTheBus"].objects == ("GPU 0000:01:00.0",)


def test_an_error_that_the_log_has_is_not_counted_again() -> None:
    device = tainted(1, "gpu.nvidia.com/xid", "79")
    line = diagnosed.log("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", "", "", "kernel")
    objects = {"resourceslices": [whole(claimed.gpu(0), device)]}
    both = diagnosed.found(xid.RULES, line, objects=objects, stack=diagnosed.stack(diagnosed.row()))
    assert [quote.source for quote in both["XidOffTheBus"].quotes] == ["pod gpu-operator/, container "]


def test_taints_that_are_no_xid_and_devices_without_an_address() -> None:
    odd = [tainted(0, "gpu.nvidia.com/xid", "many"), tainted(1, "example.com/maintenance", "79")]
    assert found(whole(*odd)) == {}
    nameless = tainted(1, "gpu.nvidia.com/xid", "79")
    del nameless["attributes"]["resource.kubernetes.io/pciBusID"]
    assert found(whole(claimed.gpu(0), nameless))["XidOffTheBus"].objects == ("GPU gpu-1",)


def test_a_node_that_offers_nothing_says_what_its_plugin_does() -> None:
    states = {
        "is ready": [claimed.plugin()],
        "is not ready": [claimed.plugin(ready=["compute-domains"])],
        "has no pod": [claimed.plugin("gpu-0001")],
    }
    for words, plugins in states.items():
        (finding,) = found(draplugins=plugins).values()
        assert finding.code == "NodeOffersNoDevices" and words in finding.cause


def test_a_node_without_devices_is_not_judged_where_a_part_is_unknown_or_meant() -> None:
    assert found(draplugins=None) == {}
    assert found(draplugins=[]) == {}
    assert found(row=diagnosed.row(allocatable=NONE, left_out="label")) == {}
    assert found(row=diagnosed.row()) == {}


def test_claims_on_a_node_whose_plugin_is_gone() -> None:
    deleted = held(deleted="2026-11-28T10:00:00Z")
    (finding,) = found(whole(), draplugins=[claimed.plugin("gpu-0001")], resourceclaims=[deleted]).values()
    assert (finding.code, finding.nodes) == ("ClaimsWithoutPlugin", (NODE,))
    assert [each.code for each in finding.consequences] == ["ClaimsNotReleased"]


def test_each_driver_has_a_container_of_its_own() -> None:
    half = [claimed.plugin(ready=["gpus"])]
    both = [held(), held("b", driver="compute-domain.nvidia.com")]
    (finding,) = found(whole(), draplugins=half, resourceclaims=both).values()
    assert "compute-domain.nvidia.com" in finding.cause and finding.quotes[0].text == "allocated and in use: default/b"


def test_a_claim_that_nobody_uses_and_pods_that_are_unknown_need_no_plugin() -> None:
    assert found(whole(), draplugins=[], resourceclaims=[held(used=False)]) == {}
    assert found(whole(), draplugins=None, resourceclaims=[held()]) == {}


def test_a_claim_that_is_deleted_for_long_is_named_and_a_young_one_is_not() -> None:
    old = held(deleted="2026-11-28T10:00:00Z", used=False)
    (finding,) = found(whole(), resourceclaims=[old]).values()
    assert (finding.code, finding.objects, finding.certainty) == (
        "ClaimsNotReleased",
        ("claim default/gpu",),
        "certain",
    )
    assert found(whole(), resourceclaims=[held(deleted="2026-11-28T10:59:00Z")]) == {}


def test_mig_instances_that_came_after_the_plugin_are_missing() -> None:
    labels = {"nvidia.com/mig-1g.10gb.count": "3", "nvidia.com/mig-2g.20gb.count": "1"}
    devices = (claimed.mig(0, 0), claimed.mig(0, 1, "2g.20gb"))
    row = diagnosed.row(allocatable=NONE, gpus=1)
    (finding,) = found(whole(*devices), row=row, labels=labels).values()
    assert finding.code == "MIGInstancesNotOffered"
    assert "3 MIG instances 1g.10gb" in finding.cause and "have 1" in finding.cause


def test_with_dynamic_mig_labels_say_nothing() -> None:
    item = whole(claimed.gpu(0), claimed.gpu(1))
    item["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory-slice-0": {"value": "1"}}}]
    assert found(item, labels={"nvidia.com/mig-1g.10gb.count": "3"}) == {}


def test_gpus_are_missing_from_the_slices() -> None:
    (finding,) = found(whole(claimed.gpu(0))).values()
    assert (finding.code, finding.certainty) == ("GPUsNotOffered", "likely")
    assert "has 2 GPUs by its labels" in finding.cause and "know 1" in finding.cause


def test_the_host_knows_better_how_many_gpus_it_has() -> None:
    objects = {"resourceslices": [whole()]}
    facts = {NODE: {"facts": {"gpus": [{}, {}, {}]}}}
    (finding,) = diagnosed.found(offered_devices.RULES, objects=objects, hosts=facts).values()
    assert "has 3 GPUs by its host" in finding.cause and "know 2" in finding.cause


def test_the_scheduler_names_a_pool_that_is_not_complete() -> None:
    text = "claim a/b, request gpus: asks for all devices, but resource pool gpu-0000 is currently being updated"
    found = diagnosed.found(offered_devices.RULES, text)
    assert "The pool gpu-0000 is being updated" in found["ResourcePoolIncomplete"].cause


@pytest.mark.parametrize(
    ("reason", "item", "cause"),
    [
        ("PoolIncomplete", claimed.slice_of(0, total=3), "ResourcePoolIncomplete"),
        ("DevicesTainted", whole({**claimed.gpu(0), "taints": [LOST]}), "DRADevicesLost"),
        ("DevicesTainted", whole(tainted(0, "gpu.nvidia.com/xid", "79")), "XidOffTheBus"),
        ("OfferedTwice", whole(), "GPUsOfferedTwice"),
    ],
)
def test_what_the_verdict_says_of_a_node_follows_from_its_cause(reason: str, item: Json, cause: str) -> None:
    said = {**diagnosed.reason(reason, "x"), "nodes": [NODE]}
    row = diagnosed.row(gpus=1, **({} if reason == "OfferedTwice" else {"allocatable": NONE}))
    stack = diagnosed.stack(row, reasons=[said])
    rules = (*offered_devices.RULES, *xid.RULES)
    (finding,) = diagnosed.found(rules, stack=stack, objects={"resourceslices": [item]}).values()
    assert (finding.code, [each.code for each in finding.consequences]) == (cause, [reason])
