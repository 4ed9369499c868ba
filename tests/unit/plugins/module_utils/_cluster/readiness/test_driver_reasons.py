# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIADriver objects, and driver images for another operating system."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Verdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names

from tests.unit.fakes.judged import codes, reason, set_labels, verdict
from tests.unit.fakes.stack import Json, Stack, progress, ready

IMAGE = "nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"
NAME = "nvidia-gpu-driver-ubuntu24.04-658cd9b8cf"


def nvidiadriver(name: str = "default", state: str = "ready", **spec: t.Any) -> Json:
    wanted = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07", "default": True}
    return {"metadata": {"name": name}, "spec": {**wanted, **spec}, "status": {"state": state, "conditions": []}}


def error(driver: Json, code: str, message: str) -> Json:
    driver["status"] = {
        "state": "notReady",
        "conditions": [{"type": "Error", "status": "True", "reason": code, "message": message}],
    }
    return driver


def delegating(nodes: int = 2, image: str = IMAGE, **spec: t.Any) -> Stack:
    """Return a ready stack whose driver belongs to the NVIDIADriver ``default``."""
    stack = ready(nodes, driver={"useNvidiaDriverCRD": True}, **spec)
    item = stack.daemonsets.pop("nvidia-driver-daemonset")
    item["metadata"] |= {
        "name": NAME,
        "labels": {"app.kubernetes.io/component": "nvidia-driver"},
        "ownerReferences": [{"kind": "NVIDIADriver", "name": "default", "uid": "uid-of-default"}],
    }
    item["spec"]["template"]["spec"]["containers"][0]["image"] = image
    stack.daemonsets[NAME] = item
    return stack


def judged(*drivers: Json, stack: Stack | None = None, **changes: t.Any) -> Verdict:
    return verdict(stack or delegating(), nvidiadrivers=list(drivers), **changes)


def test_a_ready_nvidiadriver() -> None:
    found = judged(nvidiadriver())
    assert found.state == "ready" and codes(found) == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ConflictingNodeSelector", "multiple NVIDIADrivers match the same node gpu1: [a b]"),
        ("ReconcileFailed", "multiple default NVIDIADrivers found: [a b]"),
    ],
)
@pytest.mark.parametrize(("waited_s", "state"), [(0, "progressing"), (60, "progressing"), (61, "failed")])
def test_nvidiadrivers_that_conflict(code: str, message: str, waited_s: float, state: str) -> None:
    """The ClusterPolicy stays ready, and every DaemonSet is complete."""
    found = judged(error(nvidiadriver(), code, message), waited_s=waited_s, waits=True)
    assert found.state == state and codes(found) == ["ConflictingNodeSelector"]
    assert message in found.message and "rolls them out after" in found.message


OVERLAP = "multiple NVIDIADrivers match the same node gpu-0000: [a b]"
DEFAULTS = "multiple default NVIDIADrivers found: [a b]"


@pytest.mark.parametrize(
    ("spec", "other", "code", "message", "state"),
    [
        ({"default": False}, {"default": False}, "ConflictingNodeSelector", OVERLAP, "failed"),
        ({}, {}, "ReconcileFailed", DEFAULTS, "failed"),
        # The objects no longer conflict, and the operator has not looked again.
        ({"default": False, "nodeSelector": {"pool": "a"}}, {}, "ConflictingNodeSelector", OVERLAP, "progressing"),
    ],
)
def test_a_conflict_comes_first_without_its_consequences(
    spec: Json, other: Json, code: str, message: str, state: str
) -> None:
    stack = delegating()
    del stack.daemonsets[NAME]
    drivers = [error(nvidiadriver("a", **spec), code, message), error(nvidiadriver("b", **other), code, message)]
    drivers.append(error(nvidiadriver("c", default=False, nodeSelector={"pool": "c"}), "DriverNotReady", "Waiting"))
    stack.policies[0]["status"]["state"] = "notReady"
    found = judged(*drivers, stack=stack)
    assert found.state == state
    assert [reason.code for reason in found.reasons if reason.level != "note"] == ["ConflictingNodeSelector"]
    assert found.reasons[0].message.startswith(f"NVIDIADriver a, b: {message}.")


@pytest.mark.parametrize(
    ("selectors", "state"),
    [
        (({"rack": "1"}, {"zone": "a"}), "failed"),
        (({"rack": "1"}, None), "progressing"),
        (({"rack": "1"}, {}), "failed"),
        (({names.DRIVER_OWNER: "a"}, {"rack": "2"}), "failed"),
        (({"rack": "1"}, {"rack": "2"}), "progressing"),
    ],
)
def test_a_conflict_is_seen_as_the_operator_sees_it(selectors: tuple[Json | None, Json | None], state: str) -> None:
    """A node without GPUs counts, no selector means every GPU node, and an empty one every node.

    Source: NVIDIA GPU Operator v26.7.0, ``internal/validator/validator.go``, and as its binary does it.
    """
    stack = delegating()
    stack.nodes.append({"metadata": {"name": "cpu-0000", "labels": {"rack": "1", "zone": "a"}}, "spec": {}})
    specs = [{} if selector is None else {"nodeSelector": selector} for selector in selectors]
    drivers = [nvidiadriver(name, default=False, **spec) for name, spec in zip("ab", specs, strict=True)]
    words = "multiple NVIDIADrivers match the same node cpu-0000: [a b]"
    found = judged(*(error(driver, "ConflictingNodeSelector", words) for driver in drivers), stack=stack)
    assert found.state == state and "ConflictingNodeSelector" in codes(found)


def test_a_conflict_that_the_operator_words_for_each_nvidiadriver_is_one() -> None:
    """As NVIDIA GPU Operator v26.3.3 has written it. It leaves the state of an NVIDIADriver as it was."""
    words = "conflicting NVIDIADriver NodeSelectors found for resource: {}, nodeSelector: map[{}]"
    selectors = {"a": '"nvidia.com/gpu.present":"true"', "b": '"kubernetes.io/hostname":"gpu-0000"'}
    drivers = [
        error(nvidiadriver(name, default=False), "ConflictingNodeSelector", words.format(name, selector))
        for name, selector in selectors.items()
    ]
    for driver in drivers:
        driver["status"]["state"] = "ready"
    found = judged(*drivers)
    assert codes(found) == ["ConflictingNodeSelector"]
    assert found.message.startswith("NVIDIADriver a, b: conflicting NVIDIADriver NodeSelectors found.")


def test_nvidiadrivers_that_are_ignored_cannot_conflict() -> None:
    found = judged(error(nvidiadriver(), "ConflictingNodeSelector", OVERLAP), stack=ready(2))
    assert codes(found) == ["IgnoredNVIDIADrivers"]


@pytest.mark.parametrize(("waited_s", "state"), [(0, "progressing"), (61, "failed")])
def test_an_nvidiadriver_that_cannot_be_reconciled(waited_s: float, state: str) -> None:
    found = judged(error(nvidiadriver(), "ReconcileFailed", 'Secret "x" not found'), waited_s=waited_s)
    assert found.state == state and codes(found) == ["DriverNotReconciled"] and 'Secret "x" not found' in found.message


def test_an_nvidiadriver_that_is_not_ready() -> None:
    found = judged(error(nvidiadriver(), "DriverNotReady", "Waiting for driver pod to be ready"), waited_s=1000)
    assert found.state == "progressing" and codes(found) == ["DriverNotReady"]
    assert "Waiting for driver pod" in found.message
    fresh = nvidiadriver()
    del fresh["status"]
    assert "state is not set yet" in judged(fresh).message
    assert "state is notReady" in judged(nvidiadriver(state="notReady")).message


def test_a_new_driver_version_that_the_operator_has_not_acted_on() -> None:
    found = judged(nvidiadriver(version="600.1"))
    assert found.state == "progressing" and codes(found) == ["OldImage"]
    assert f"still runs {IMAGE} instead of nvcr.io/nvidia/driver:600.1" in found.message


@pytest.mark.parametrize(
    "spec", [{"repository": "mirror.example/nvidia"}, {"image": IMAGE, "repository": None, "version": None}]
)
def test_images_that_are_as_asked_for(spec: Json) -> None:
    assert judged(nvidiadriver(**spec)).state == "ready"


def test_a_daemonset_of_another_nvidiadriver_is_not_compared() -> None:
    assert judged(nvidiadriver(), nvidiadriver("other", nodeSelector={"pool": "b"}, version="600.1")).state == "ready"


def test_nodes_that_no_nvidiadriver_selects() -> None:
    stack = set_labels(delegating(), 1, pool="a")
    found = judged(nvidiadriver(default=False, nodeSelector={"pool": "a"}), stack=stack)
    assert found.state == "progressing" and codes(found) == ["NodesWithoutDriver"]
    assert "1 of 2 GPU nodes (gpu-0001): no NVIDIADriver selects them" in found.message
    everywhere = judged(nvidiadriver(default=False, nodeSelector={"pool": "a"}), nvidiadriver("rest"), stack=stack)
    assert everywhere.state == "ready"


def test_a_node_with_its_own_driver_needs_no_nvidiadriver() -> None:
    stack = set_labels(delegating(), 2, pool="a")
    stack.nodes[1]["metadata"]["labels"] |= {"nvidia.com/gpu.deploy.driver": "pre-installed", "pool": "b"}
    stack.daemonsets[NAME]["status"].update(progress(1, 1, 1, 1))
    assert judged(nvidiadriver(default=False, nodeSelector={"pool": "a"}), stack=stack).state == "ready"


@pytest.mark.parametrize("driver", [{}, {"useNvidiaDriverCRD": False}])
def test_nvidiadrivers_without_a_part_are_a_note(driver: Json) -> None:
    stack = ready(2, driver=driver)
    found = judged(error(nvidiadriver(state="disabled"), "Reconciled", "not enabled"), stack=stack)
    assert found.state == "ready" and codes(found) == ["IgnoredNVIDIADrivers"]
    assert "useNvidiaDriverCRD is not true" in reason(found, "IgnoredNVIDIADrivers").message


def test_a_nodeaffinity_limits_the_nodes_that_are_expected() -> None:
    stack = set_labels(delegating(), 1, pool="a")
    expression = {"key": "pool", "operator": "In", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    stack.daemonsets[NAME]["spec"]["template"]["spec"]["affinity"] = affinity
    stack.daemonsets[NAME]["status"].update(progress(1, 1, 1, 1))
    driver = next(item for item in judged(nvidiadriver(), stack=stack).operands if item.operand == "driver")
    assert (driver.state, driver.expected) == ("ready", 1)


# Who replaces outdated pods


@pytest.mark.parametrize(
    ("driver", "spec", "state"),
    [
        ({}, {}, "progressing"),
        ({"upgradePolicy": {}}, {}, "progressing"),
        ({"upgradePolicy": {"autoUpgrade": True}}, {}, "progressing"),
        ({"upgradePolicy": {"autoUpgrade": False}}, {}, "failed"),
        ({}, {"sandboxWorkloads": {"enabled": True}}, "failed"),
    ],
)
def test_outdated_pods_of_an_nvidiadriver(driver: Json, spec: Json, state: str) -> None:
    stack = delegating(**spec)
    stack.daemonsets[NAME]["status"].update(progress(2, 2, 1, 2))
    assert judged(nvidiadriver(**driver), stack=stack).state == state


@pytest.mark.parametrize(("upgrades", "state"), [(True, "progressing"), (False, "failed")])
def test_before_v26_7_the_clusterpolicy_decides_about_upgrades(upgrades: bool, state: str) -> None:
    stack = delegating()
    stack.policies[0]["spec"]["driver"]["upgradePolicy"] = {"autoUpgrade": upgrades}
    stack.daemonsets[NAME]["status"].update(progress(2, 2, 1, 2))
    old = nvidiadriver()
    del old["spec"]["default"]
    assert judged(old, stack=stack).state == state


# Operating systems


@pytest.mark.parametrize(
    ("tag", "system", "version", "fits"),
    [
        ("595.91.07-ubuntu24.04", "ubuntu", "24.04", True),
        ("595.91.07-ubuntu24.04", "ubuntu", "22.04", False),
        ("595.91.07-ubuntu24.04", "ubuntu", "24.10", False),
        ("595.91.07-ubuntu24.04", "rhel", "9.4", False),
        ("595-5.15.0-119-generic-ubuntu22.04", "ubuntu", "22.04", True),
        ("580.1-rhel9.4", "rhel", "9.6", True),
        ("595.1-rhel9", "rhel", "9.6", True),
        ("595.1-rhel9", "rhel", "10.1", False),
        ("595.1-rhel9", "rocky", "9.6", False),
        ("595.1-rhcos4.14", "rhcos", "4.16", True),
        ("595.1", "ubuntu", "22.04", True),
        ("595.1-custom", "ubuntu", "22.04", True),
    ],
)
def test_a_drivers_image_must_fit_the_nodes_system(tag: str, system: str, version: str, fits: bool) -> None:
    stack = ready(2)
    container = stack.daemonsets["nvidia-driver-daemonset"]["spec"]["template"]["spec"]["containers"][0]
    container["image"] = f"nvcr.io/nvidia/driver:{tag}"
    prefix = "feature.node.kubernetes.io/system-os_release."
    for item in stack.nodes:
        item["metadata"]["labels"] |= {f"{prefix}ID": system, f"{prefix}VERSION_ID": version}
    found = verdict(stack)
    assert codes(found) == ([] if fits else ["DriverImageMisfit"])
    assert found.state == ("ready" if fits else "failed")
    if not fits:
        assert f"{tag} is for " in found.message and f"but gpu-0000 runs {system}{version}" in found.message


def test_only_the_nodes_of_another_system_are_named() -> None:
    stack = ready(2)
    container = stack.daemonsets["nvidia-driver-daemonset"]["spec"]["template"]["spec"]["containers"][0]
    container["image"] = IMAGE
    stack.nodes[1]["metadata"]["labels"]["feature.node.kubernetes.io/system-os_release.VERSION_ID"] = "22.04"
    assert verdict(stack).message.startswith(f"1 of 2 GPU nodes (gpu-0001): driver image {IMAGE} is for ubuntu24.04")
    stack.nodes[1]["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = "pre-installed"
    stack.daemonsets["nvidia-driver-daemonset"]["status"].update(progress(1, 1, 1, 1))
    assert verdict(stack).state == "ready"


def test_a_node_whose_system_is_not_known_yet() -> None:
    stack = ready(1)
    stack.daemonsets["nvidia-driver-daemonset"]["spec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
    del stack.nodes[0]["metadata"]["labels"]["feature.node.kubernetes.io/system-os_release.ID"]
    assert verdict(stack).state == "ready"


# Nodes that keep their driver. The operator judges the DaemonSet by its counts, so the NVIDIADriver is not ready.


def held(driver: Json, labelled: int = 2) -> Verdict:
    """Return the verdict on two nodes with old driver pods, of which some are kept out of upgrades."""
    stack = set_labels(delegating(), labelled, **{"nvidia.com__gpu-driver-upgrade.skip": "true"})
    stack.daemonsets[NAME]["status"].update(progress(2, 2, 0, 2))
    return judged(driver, stack=stack, outdated={NAME: frozenset({"gpu-0000", "gpu-0001"})})


def test_a_held_driver_of_an_nvidiadriver_does_not_block() -> None:
    waiting = error(nvidiadriver(), "DriverNotReady", "Waiting for driver pod to be ready")
    found = held(waiting)
    assert found.state == "ready" and reason(found, "DriverNotReady").level == "note"
    assert reason(held(waiting, labelled=1), "DriverNotReady").level == "progressing"


def test_a_held_driver_excuses_no_other_error_of_its_nvidiadriver() -> None:
    broken = error(nvidiadriver(), "ConflictingNodeSelector", "multiple NVIDIADrivers match the same node gpu1: [a b]")
    assert held(broken).state == "progressing"
