# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import sets
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import Deletion
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes.upgrades.drivers import NEW, OLD
from tests.unit.fakes.upgrades.sights import SET


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/driver:595.91.07-ubuntu24.04", "595.91.07"),
        ("127.0.0.1:5000/nvidia/driver:595.91.07-rhel9", "595.91.07"),
        ("nvcr.io/nvidia/driver:580-6.8.0-31-generic-ubuntu24.04", "580"),
        ("nvcr.io/nvidia/driver@sha256:abc", ""),
        ("nvcr.io/nvidia/driver:latest", ""),
        ("", ""),
    ],
)
def test_the_version_comes_from_the_image(image: str, version: str) -> None:
    assert dataclasses.replace(SET, image=image).version == version


def test_a_branch_has_every_version_of_it_and_a_digest_any() -> None:
    branch, digest = dataclasses.replace(SET, image="d:595-6.8.0-x"), dataclasses.replace(SET, image="d@sha256:1")
    assert branch.has_version(NEW) and not branch.has_version("5951.1") and digest.has_version(OLD)
    assert SET.has_version(NEW) and not SET.has_version(OLD)


def test_older_releases_report_the_version_in_parts() -> None:
    parts = {
        f"nvidia.com/cuda.driver.{name}": value for name, value in (("major", "595"), ("minor", "91"), ("rev", "07"))
    }
    labelled = {"metadata": {"name": "x", "labels": parts}}
    assert sets.reported_version(labelled) == "595.91.07"
    assert sets.reported_version({"metadata": {"name": "x"}}) == ""


def test_the_upgrade_policy_says_which_pods_may_go() -> None:
    blocks = {"podDeletion": {"force": True, "deleteEmptyDir": True}, "drain": {"enable": True}}
    policy = {"driver": {"upgradePolicy": {**blocks, "waitForCompletion": {"podSelector": "job=yes"}}}}
    assert sets.deletion_of(policy, None) == Deletion(True, True, True, True, "job=yes")
    assert sets.deletion_of({}, None) == Deletion(is_given=False)
    assert sets.deletion_of(policy, {"default": True}) == Deletion(), "an NVIDIADriver has the operator's defaults"
    assert sets.deletion_of(policy, {}).force, "before v26.7 the ClusterPolicy's policy governed NVIDIADrivers"


def daemonset(name: str = "nvidia-driver-daemonset", **status: int) -> Json:
    containers = [{"name": "other", "image": "x"}, {"name": "nvidia-driver-ctr", "image": f"d:{NEW}-ubuntu24.04"}]
    spec = {"containers": containers, "nodeSelector": {"nvidia.com/gpu.deploy.driver": "true"}, "hostPID": True}
    return {"metadata": {"name": name, "generation": 3}, "spec": {"template": {"spec": spec}}, "status": status}


def test_a_set_says_what_its_daemonset_says() -> None:
    given = daemonset(desiredNumberScheduled=7, observedGeneration=3)
    found = sets.driver_sets([given, daemonset("nvidia-dcgm")], {"nvidia-driver-daemonset": "abc"}, {}, [])
    assert list(found) == ["nvidia-driver-daemonset"]
    one = found["nvidia-driver-daemonset"]
    assert (one.version, one.revision, one.desired, one.is_observed) == (NEW, "abc", 7, True)
    assert one.template == {"nodeSelector": {"nvidia.com/gpu.deploy.driver": "true"}}


def test_a_set_names_the_object_that_it_was_made_for() -> None:
    own = daemonset("nvidia-gpu-driver-ubuntu24.04-1")
    own["metadata"]["labels"] = {"app.kubernetes.io/component": "nvidia-driver"}
    own["metadata"]["ownerReferences"] = [{"kind": "NVIDIADriver", "name": "b"}]
    found = sets.driver_sets([daemonset(), own], {}, {}, [], "cluster-policy")
    assert [each.source for each in found.values()] == ["ClusterPolicy cluster-policy", "NVIDIADriver b"]


@pytest.mark.parametrize("status", [{}, {"observedGeneration": 2}])
def test_a_daemonset_that_its_controller_has_not_seen_is_not_observed(status: dict[str, int]) -> None:
    found = sets.driver_sets([daemonset(**status)], {}, {}, [])["nvidia-driver-daemonset"]
    assert (found.desired, found.is_observed, found.revision) == (0, False, "")


def test_selector_and_affinity_say_which_nodes_get_a_pod() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pool = dataclasses.replace(SET, template={"nodeSelector": {"gpu": "yes"}, "affinity": {"nodeAffinity": required}})
    labels = [{"gpu": "yes", "zone": "a"}, {"gpu": "yes", "zone": "b"}, {"gpu": "no", "zone": "a"}]
    assert [pool.selects({"metadata": {"name": "n", "labels": each}}) for each in labels] == [True, False, False]
    assert not dataclasses.replace(SET, template={}).selects({"metadata": {"name": "n", "labels": labels[0]}})
