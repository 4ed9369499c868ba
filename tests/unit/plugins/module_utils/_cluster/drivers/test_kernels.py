# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import kernels
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import published
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry.ask import Answer
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import drivers_view
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import daemonset, node, pod

NEW = "6.8.0-60-generic"
BRANCH = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595", "usePrecompiled": True}
BUILT = {**BRANCH, "version": "595.1.2", "usePrecompiled": False}
IMAGE = f"nvcr.io/nvidia/driver:595-{NEW}-ubuntu24.04"


BUILT_IMAGE = "nvcr.io/nvidia/driver:595.1.2-ubuntu24.04"
REVISION = "7d9c"


class Pods:
    """A cluster that has only these pods of the driver."""

    def __init__(self, *pods: dict[str, t.Any]) -> None:
        self.pods = list(pods)

    def list_readable(self, path: str, labelSelector: str) -> Listed:  # noqa: N803
        assert (path, labelSelector) == (
            "/api/v1/namespaces/gpu-operator/pods",
            "app.kubernetes.io/component=nvidia-driver",
        )
        return Listed(self.pods)


def driver_pod(number: int, image: str = BUILT_IMAGE, revision: str = REVISION, ready: bool = True) -> dict[str, t.Any]:
    owner = daemonset(operands.DRIVER, 2)
    made = pod(owner, number)
    name = owner["metadata"]["name"]
    made["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": name, "controller": True}]
    made["metadata"]["labels"][troubles.REVISION] = revision
    made["spec"]["containers"] = [
        {"name": "sidecar", "image": "x"},
        {"name": operands.DRIVER.container, "image": image},
    ]
    made["status"] = {"phase": "Running", "containerStatuses": [{"name": "x", "ready": ready}]}
    return made


def look(
    monkeypatch: pytest.MonkeyPatch,
    driver: dict[str, t.Any],
    mode: str = "strict",
    pods: t.Sequence[dict[str, t.Any]] = (),
    fleet: t.Sequence[dict[str, t.Any]] = (),
    revisions: t.Mapping[str, str] | None = None,
    **states: t.Any,
) -> dict[str, t.Any]:
    policy = {"metadata": {"name": "cluster-policy"}, "spec": {"driver": driver}}
    seen = DriversView("gpu-operator", policy, None, [], True, fleet or [node(0), node(1)], [], None, 0.0)
    seen.__dict__["line"] = (26, 7)
    monkeypatch.setattr(drivers_view, "look", lambda cluster, policy_name, namespace: seen)
    known = {"nvidia-driver-daemonset": REVISION} if revisions is None else revisions
    monkeypatch.setattr(troubles, "newest_revisions", lambda cluster, namespace: known)

    def answers(cluster: object, namespace: str, pools: t.Any, registry: object) -> dict[str, Answer]:
        return {image: Answer(image, image, **states) for pool in pools for image in pool.images}

    monkeypatch.setattr(published, "answers", answers)
    options = {
        "kernels": {"gpu-0000": NEW, "elsewhere": NEW},
        "registry": {"mode": mode},
        "policy_name": "",
        "namespace": "",
    }
    return kernels.look(Pods(*pods), options)["nodes"]  # type: ignore[arg-type]


def test_the_image_of_a_precompiled_driver_has_the_new_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(monkeypatch, BRANCH, state="exists") == {
        "elsewhere": {"image": "", "precompiled": False, "problem": "", "unproved": ""},
        "gpu-0000": {"image": IMAGE, "precompiled": True, "problem": "", "unproved": ""},
    }


def test_a_registry_needs_time_to_answer() -> None:
    with pytest.raises(GpuOpsError) as error:
        kernels.look(None, {"kernels": {}, "registry": {"timeout": 0}})
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("timeout is 0: give 1 or more.")  # type: ignore[arg-type]


def test_an_image_that_is_missing_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, BRANCH, state="missing", message="there is no such tag")
    assert found["gpu-0000"]["problem"] == f"{IMAGE}: there is no such tag"
    lacks = look(monkeypatch, BRANCH, state="exists", lacks=("arm64",))
    assert lacks["gpu-0000"]["problem"] == wording(
        "nvcr.io/nvidia/driver:595-6.8.0-60-generic-ubuntu24.04: it is not published for arm64"
    )


@pytest.mark.parametrize(
    ("mode", "state", "is_problem"),
    [
        ("strict", "unreachable", True),
        ("lenient", "unreachable", False),
        ("lenient", "missing", True),
        ("offline", "unasked", False),
        ("strict", "unasked", True),
    ],
)
def test_the_mode_says_which_answers_pass(
    monkeypatch: pytest.MonkeyPatch, mode: str, state: str, is_problem: bool
) -> None:
    assert bool(look(monkeypatch, BRANCH, mode, state=state)["gpu-0000"]["problem"]) is is_problem


def test_an_image_that_builds_its_driver_serves_every_kernel_and_nobody_has_built_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = look(monkeypatch, BUILT, state="missing")["gpu-0000"]
    unproved = f"{BUILT_IMAGE} with the kernel {NEW}"
    assert found == {"image": BUILT_IMAGE, "precompiled": False, "problem": "", "unproved": unproved}


def running(number: int, kernel: str = NEW, ready: str = "True", architecture: str = "") -> dict[str, t.Any]:
    """Return a node that runs a kernel."""
    made = node(number)
    made["status"]["nodeInfo"]["kernelVersion"] = kernel
    made["status"]["conditions"][0]["status"] = ready
    if architecture:
        made["status"]["nodeInfo"]["architecture"] = architecture
    return made


def test_a_node_that_runs_the_driver_with_the_kernel_proves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = [node(0), running(1)]
    found = look(monkeypatch, BUILT, pods=[driver_pod(0), driver_pod(1)], fleet=fleet, state="exists")
    assert found["gpu-0000"]["unproved"] == ""


@pytest.mark.parametrize(
    ("proving", "own"),
    [
        (running(1, kernel="6.8.0-31-generic"), driver_pod(1)),
        (running(1, ready="Unknown"), driver_pod(1)),
        (running(1, architecture="arm64"), driver_pod(1)),
        (running(1), driver_pod(1, image="nvcr.io/nvidia/driver:580.1.2-ubuntu24.04")),
        (running(1), driver_pod(1, revision="old")),
        (running(1), driver_pod(1, ready=False)),
        (running(1), driver_pod(7)),
    ],
    ids=["another kernel", "not Ready", "another machine", "another driver", "outdated", "not ready", "elsewhere"],
)
def test_anything_less_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, proving: dict[str, t.Any], own: dict[str, t.Any]
) -> None:
    found = look(monkeypatch, BUILT, pods=[own], fleet=[node(0), proving], state="exists")
    assert found["gpu-0000"]["unproved"] == f"{BUILT_IMAGE} with the kernel {NEW}"


def test_a_pod_that_ends_and_a_revision_that_nobody_may_read_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, ending = [node(0), running(1)], driver_pod(1)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert look(monkeypatch, BUILT, pods=[ending], fleet=fleet, state="exists")["gpu-0000"]["unproved"]
    unread = look(monkeypatch, BUILT, pods=[driver_pod(1)], fleet=fleet, revisions={}, state="exists")
    assert unread["gpu-0000"]["unproved"]


def test_each_architecture_has_its_own_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = [running(0, "6.8.0-31-generic", architecture="arm64"), running(1, architecture="amd64")]
    found = look(monkeypatch, BUILT, pods=[driver_pod(1)], fleet=fleet, state="exists")["gpu-0000"]
    assert found["unproved"] == f"{BUILT_IMAGE} with the kernel {NEW} on arm64"


def test_nodes_that_nobody_asks_about_have_a_say_in_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ClusterPolicy has one system for all nodes: that of the first one."""
    first = node(0)
    first["metadata"]["name"] = "a-first"
    first["metadata"]["labels"]["feature.node.kubernetes.io/system-os_release.VERSION_ID"] = "22.04"
    found = look(monkeypatch, BUILT, fleet=[first, node(0)], state="exists")
    assert found["gpu-0000"]["image"] == "nvcr.io/nvidia/driver:595.1.2-ubuntu22.04" and "a-first" not in found


def test_a_driver_of_the_host_has_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, {"enabled": False}, state="missing")["gpu-0000"]
    assert found == {"image": "", "precompiled": False, "problem": "", "unproved": ""}
