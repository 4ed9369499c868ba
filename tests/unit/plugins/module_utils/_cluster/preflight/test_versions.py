# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import LINES
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.preflight.clusters import (
    ON_HOSTS,
    bare,
    check,
    intent,
    levels,
    node,
    only,
    snapshot,
)


@pytest.mark.parametrize(
    ("version", "level"),
    [("v1.31.9", "failure"), ("v1.32.0", "ok"), ("v1.36.3-gke.100", "ok"), ("v1.37.0", "warning"), ("odd", "ok")],
)
def test_kubernetes_version(version: str, level: str) -> None:
    assert LINES["26.7"].kubernetes == ((1, 32), (1, 36))
    assert check("kubernetes_version", snapshot(version=version))[-1].level == level


def test_operator_lines() -> None:
    assert levels(check("kubernetes_version", snapshot(), intent(None))) == ["ok"]
    assert only("kubernetes_version", snapshot(), intent("v99.1.0")).message == wording(
        "There is no compatibility data for GPU Operator v99.1.0; known lines are 26.7, 26.3, 25.10."
    )
    old = check("kubernetes_version", snapshot(version="v1.33.0"), intent("25.10.1"))
    assert levels(old) == ["warning", "ok"] and "end of support" in old[0].message


@pytest.mark.parametrize(
    ("runtimes", "level", "words"),
    [
        (["containerd://2.3.0"], "ok", wording("The container runtime is containerd.")),
        (["cri-o://1.33.0"], "ok", wording("The container runtime is cri-o.")),
        (
            ["docker://27.0.0"],
            "failure",
            wording("These nodes run docker://27.0.0; the operator supports containerd and CRI-O."),
        ),
        (
            ["containerd://2.9.0"],
            "warning",
            wording("NVIDIA validated containerd 1.8 to 2.3; these nodes run containerd://2.9.0."),
        ),
        (
            ["containerd://2.1.0", "cri-o://1.33.0"],
            "failure",
            wording("GPU nodes mix container runtimes (containerd, cri-o), but the operator configures only one."),
        ),
    ],
)
def test_container_runtime(runtimes: list[str], level: str, words: str) -> None:
    finding = only(
        "container_runtime",
        snapshot(nodes=[node(f"g{number}", runtime=runtime) for number, runtime in enumerate(runtimes)]),
    )
    assert finding.level == level and finding.message == words


def test_mixed_container_runtimes_are_only_a_warning_while_gpus_are_unknown() -> None:
    found = check("container_runtime", snapshot(nodes=[bare("a"), bare("b", runtime="docker://27.0.0")]))
    assert levels(found) == ["warning", "warning"]
    assert found[1].message == wording(
        "Nodes (which of them carry a GPU is not known yet) mix container runtimes (containerd, docker), but the operator configures only one."
    )


def test_container_runtime_without_toolkit_data_or_nodes() -> None:
    mixed = snapshot(nodes=[node("a"), node("b", runtime="cri-o://1.33.0")])
    assert (
        only("container_runtime", mixed, intent(toolkit={"enabled": False})).message
        == "The container runtime is containerd and cri-o."
    )
    assert (
        only("container_runtime", snapshot(nodes=[node(runtime="containerd://9.9.9")]), intent("v99.1.0")).level == "ok"
    )
    assert only("container_runtime", snapshot(nodes=[])).message == "The container runtime is not known yet."


def other_os(name: str, os_id: str, version: str, **changes: t.Any) -> dict:
    prefix = "feature.node.kubernetes.io/system-os_release"
    return node(name, {f"{prefix}.ID": os_id, f"{prefix}.VERSION_ID": version}, **changes)


PER_POOL = {"driver": {"nvidiaDriverCRD": {"enabled": True}}}


@pytest.mark.parametrize(
    ("nodes", "values", "level", "words"),
    [
        ([node()], {}, "ok", wording("There are driver containers for ubuntu 24.04.")),
        (
            [node("a"), other_os("b", "ubuntu", "22.04")],
            {},
            "failure",
            wording(
                "GPU nodes run different operating systems (ubuntu 22.04, ubuntu 24.04), but a ClusterPolicy installs the driver for the first of these systems on all nodes."
            ),
        ),
        (
            [bare("a"), bare("b", "Ubuntu 22.04.5 LTS")],
            {},
            "warning",
            wording(
                "Nodes (which of them carry a GPU is not known yet) run different operating systems (ubuntu 22.04, ubuntu 24.04), but a ClusterPolicy installs the driver for the first of these systems on all nodes."
            ),
        ),
        (
            [node("a"), other_os("b", "ubuntu", "22.04")],
            PER_POOL,
            "ok",
            wording("There are driver containers for ubuntu 22.04, ubuntu 24.04."),
        ),
        (
            [node("a"), other_os("b", "ubuntu", "22.04")],
            ON_HOSTS,
            "ok",
            wording("The driver is installed on the hosts, so any operating system works."),
        ),
        (
            [other_os("a", "rhel", "9.4"), other_os("b", "rhel", "9.6")],
            {},
            "ok",
            wording("There are driver containers for rhel 9."),
        ),
        (
            [other_os("a", "debian", "13")],
            {},
            "warning",
            wording(
                "NVIDIA did not validate GPU Operator 26.7 on debian 13, and there may be no driver container for it."
            ),
        ),
        (
            [other_os("a", "ubuntu", "18.04")],
            {},
            "warning",
            wording(
                "NVIDIA did not validate GPU Operator 26.7 on ubuntu 18.04, and there may be no driver container for it."
            ),
        ),
        ([other_os("a", "rhcos", "9.6.20251")], {}, "ok", wording("There are driver containers for rhcos 9.6.20251.")),
        (
            [bare(image="")],
            {},
            "warning",
            wording("The operating system of these nodes is not known, so there may be no driver container for it."),
        ),
        ([], {}, "ok", wording("There are no nodes yet whose operating system could be checked.")),
        (
            [node("a"), node("b", kernel="6.8.0-71-generic")],
            {},
            "ok",
            wording("There are driver containers for ubuntu 24.04."),
        ),
        (
            [node("a"), node("b", kernel="6.8.0-71-generic")],
            {"driver": {"usePrecompiled": True}},
            "failure",
            wording(
                "GPU nodes run different kernels (6.8.0-60-generic, 6.8.0-71-generic), but precompiled drivers are built for one kernel."
            ),
        ),
    ],
)
def test_operating_system(nodes: list[dict], values: dict, level: str, words: str) -> None:
    finding = only("operating_system", snapshot(nodes=nodes), intent(**values))
    assert finding.level == level and finding.message == words


def test_without_compatibility_data_no_system_is_unvalidated() -> None:
    finding = only("operating_system", snapshot(nodes=[other_os("a", "debian", "13")]), intent("v99.1.0"))
    assert finding.level == "ok"
    assert finding.message == wording(
        "Whether there are driver containers for debian 13 is not known for this operator."
    )


def test_an_unknown_system_among_known_ones_is_named() -> None:
    found = check("operating_system", snapshot(nodes=[bare("a"), bare("b", image="")]))
    assert [list(finding.nodes) for finding in found if "nodes is not known" in finding.message] == [["b"]]


@pytest.mark.parametrize(
    ("product", "values", "level"),
    [
        ("NVIDIA-B200", {"driver": {"version": "570.86.15"}}, "failure"),
        ("NVIDIA-B200", {"driver": {"version": "570.133.20"}}, "ok"),
        ("NVIDIA-B200", {}, "ok"),
        ("NVIDIA-B200", {"driver": {"version": "535.1.1", "enabled": False}}, "ok"),
        ("NVIDIA-B200", {"driver": {"version": "sha256:0123"}}, "ok"),
        ("NVIDIA-H100-80GB-HBM3", {"driver": {"version": "535.309.01"}}, "ok"),
    ],
)
def test_driver(product: str, values: dict, level: str) -> None:
    assert (
        only("driver", snapshot(nodes=[node(labels={"nvidia.com/gpu.product": product})]), intent(**values)).level
        == level
    )
