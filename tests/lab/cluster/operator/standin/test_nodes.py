# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels and annotations that the operator writes on nodes."""

from __future__ import annotations

import typing as t

import pytest

from lab.cluster.operator.standin import nodes
from tests.lab.cluster.operator.standin.builders import NFD, node


def test_a_fresh_gpu_node() -> None:
    patch = nodes.label_patch(node(NFD), {})
    assert patch[nodes.PRESENT] == "true"
    assert sum(key.startswith(nodes.DEPLOY) for key in patch) == 9


def test_a_cpu_node_is_left_alone() -> None:
    assert nodes.label_patch(node(), {}) == {}


def test_labels_of_the_user_stay() -> None:
    assert f"{nodes.DEPLOY}dcgm" not in nodes.label_patch(node({**NFD, f"{nodes.DEPLOY}dcgm": "false"}), {})


def test_a_gpu_that_was_removed() -> None:
    assert nodes.label_patch(node({nodes.PRESENT: "true", f"{nodes.DEPLOY}driver": "true"}), {}) == {
        nodes.PRESENT: "false",
        f"{nodes.DEPLOY}driver": None,
    }


def test_a_node_without_operands() -> None:
    patch = nodes.label_patch(node({**NFD, f"{nodes.DEPLOY}operands": "false", f"{nodes.DEPLOY}driver": "true"}), {})
    assert patch == {nodes.PRESENT: "true", f"{nodes.DEPLOY}driver": None}


@pytest.mark.parametrize(
    ("labels", "capable"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, True),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/mig.capable": "false"}, False),
        ({"nvidia.com/mig.capable": "true", "nvidia.com/vgpu.host-driver-version": "1"}, False),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, False),
    ],
)
def test_mig(labels: dict[str, str], capable: bool) -> None:
    spec = {"migManager": {"config": {"name": "", "default": "all-disabled"}}}
    patch = nodes.label_patch(node({**NFD, **labels}), spec)
    assert (f"{nodes.DEPLOY}mig-manager" in patch) is capable
    assert patch.get("nvidia.com/mig.config") == ("all-disabled" if capable else None)


@pytest.mark.parametrize(
    "manager", [{}, {"config": {"default": ""}}, {"enabled": False, "config": {"default": "all-disabled"}}]
)
def test_without_a_default_mig_is_left_as_it_is(manager: t.Any) -> None:
    """nodelabeling_controller.go of NVIDIA's operator v26.7.0 sets the label only if the block names this default."""
    capable = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert "nvidia.com/mig.config" not in nodes.label_patch(node({**NFD, **capable}), {"migManager": manager})


def test_edits_of_its_own_labels_are_ignored() -> None:
    before, after = node({**NFD, f"{nodes.DEPLOY}driver": "true"}), node(NFD)
    assert not nodes.concerns_labelling(before, after)
    assert nodes.concerns_labelling(before, node({}))


def test_annotation_follows_the_upgrade_policy() -> None:
    wanted = {"driver": {"upgradePolicy": {"autoUpgrade": True}}}
    assert nodes.annotation_patch(node(NFD), wanted) == {nodes.UPGRADE_ENABLED: "true"}
    assert nodes.annotation_patch(node(NFD), {}) == {}


def test_the_labels_of_a_gpuclusters_operands() -> None:
    """NVIDIA's operator v26.7.0 writes these, and removes those of a ClusterPolicy's operands."""
    old = {f"{nodes.DEPLOY}device-plugin": "true", f"{nodes.DEPLOY}mine": "true"}
    wanted = {
        f"{nodes.DEPLOY}{name}": "true"
        for name in ("driver", "dra-driver", "dra-validator", "dcgm-dra", "dcgm-exporter-dra")
    }
    patch = nodes.claim_label_patch(node({**NFD, **old}))
    assert patch == {nodes.PRESENT: "true", **wanted, f"{nodes.DEPLOY}device-plugin": None}
    assert nodes.claim_label_patch(node({**NFD, nodes.PRESENT: "true", **wanted})) == {}
    assert nodes.claim_label_patch(node()) == {}
