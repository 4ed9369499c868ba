# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config, node
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node as h100s

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
FOUR = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [{"name": GPU, "replicas": 4}]}}})
RENAMED = config.of_document(
    "x", {"sharing": {"timeSlicing": {"renameByDefault": True, "resources": [{"name": GPU, "replicas": 4}]}}}
)
MPS = config.of_document("x", {"sharing": {"mps": {"resources": [{"name": GPU, "replicas": 4}]}}})
SLICES = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [{"name": SLICE, "replicas": 2}]}}})


def seen(offered: dict[str, int], resource: str = GPU, **labels: object) -> dict:
    """Return a node that offers these GPUs. ``labels`` are those of GPU Feature Discovery for the resource."""
    found = h100s()
    found["metadata"]["labels"] |= {f"{resource}.{key.replace('_', '-')}": str(value) for key, value in labels.items()}
    numbers = {key: str(value) for key, value in offered.items()}
    found["status"]["capacity"], found["status"]["allocatable"] = dict(numbers), dict(numbers)
    return found


PLAIN = seen({GPU: 8}, replicas=1, sharing_strategy="none")
SHARED = seen({GPU: 32}, replicas=4, sharing_strategy="time-slicing", product="H100-SHARED")
BY_MPS = seen({GPU: 32}, replicas=4, sharing_strategy="mps", product="H100-SHARED")
UNDER_ANOTHER_NAME = seen({GPU: 0, f"{GPU}.shared": 32}, replicas=4, sharing_strategy="time-slicing")


@pytest.mark.parametrize(
    ("found", "wanted"),
    [(PLAIN, config.PLAIN), (h100s(), config.PLAIN), (SHARED, FOUR), (BY_MPS, MPS), (UNDER_ANOTHER_NAME, RENAMED)],
)
def test_a_node_that_is_as_wanted_lacks_nothing(found: dict, wanted: config.Configuration) -> None:
    assert node.missing(found, wanted) == ""


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (PLAIN, FOUR, wording("GPU Feature Discovery shows nvidia.com/gpu.replicas=1 instead of 4")),
        (SHARED, config.PLAIN, wording("GPU Feature Discovery shows nvidia.com/gpu.replicas=4 instead of 1")),
        (SHARED, MPS, wording("GPU Feature Discovery shows the strategy time-slicing instead of mps")),
        (SHARED, RENAMED, wording("GPU Feature Discovery shows nvidia.com/gpu.product=H100-SHARED")),
        (
            UNDER_ANOTHER_NAME,
            FOUR,
            wording("GPU Feature Discovery shows nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3"),
        ),
        (
            seen({GPU: 16}, replicas=4, sharing_strategy="time-slicing", product="x-SHARED"),
            FOUR,
            wording("the device plugin offers 16 of nvidia.com/gpu instead of 32"),
        ),
        (seen({}), FOUR, wording("the node offers no GPUs")),
        (
            seen({GPU: 8, f"{GPU}.shared": 32}, replicas=4, sharing_strategy="time-slicing"),
            RENAMED,
            wording("the device plugin still offers nvidia.com/gpu"),
        ),
    ],
)
def test_what_a_node_lacks_is_named(found: dict, wanted: config.Configuration, said: str) -> None:
    assert node.missing(found, wanted) == said


def test_mig_devices_are_proven_beside_gpus_that_mig_divides() -> None:
    """With the strategy mixed, GPU Feature Discovery counts all GPUs, with 0 replicas if MIG divides them."""
    divided = seen(
        {SLICE: 14}, SLICE, replicas=2, count=7, sharing_strategy="time-slicing", product="x-MIG-1g.10gb-SHARED"
    )
    divided["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "0"
    assert node.missing(divided, SLICES) == ""
    assert "nvidia.com/mig-1g.10gb.replicas=2 instead of 1" in node.missing(divided, config.PLAIN)
    beside = seen({SLICE: 14, GPU: 7}, SLICE, replicas=2, count=7, sharing_strategy="time-slicing", product="x-SHARED")
    assert node.missing(beside, SLICES) == ""  # nvidia.com/gpu.count is 8 there: one GPU is divided
    beside["status"]["allocatable"][GPU] = "0"
    assert node.missing(beside, SLICES) == "the device plugin offers 0 of nvidia.com/gpu"


def test_a_node_whose_gpus_mig_divides_without_devices_lacks_nothing() -> None:
    assert node.missing(seen({GPU: 7}, replicas=0), config.PLAIN) == ""


def test_devices_are_counted_without_their_shares() -> None:
    assert [node.devices_of(each, GPU) for each in (PLAIN, SHARED, UNDER_ANOTHER_NAME)] == [8, 8, 8]


@pytest.mark.parametrize(
    ("found", "wanted", "held", "said"),
    [
        (PLAIN, FOUR, {GPU: 8}, ""),
        (PLAIN, MPS, {}, ""),
        (PLAIN, MPS, {GPU: 1}, "MPS control daemon takes"),
        (BY_MPS, FOUR, {GPU: 1}, "these pods depend, stops"),
        (SHARED, config.PLAIN, {GPU: 8}, ""),
        (SHARED, config.PLAIN, {GPU: 9}, "9 of nvidia.com/gpu"),
        (PLAIN, RENAMED, {GPU: 1}, "1 of nvidia.com/gpu"),
        (UNDER_ANOTHER_NAME, FOUR, {f"{GPU}.shared": 1}, "the node would offer 0"),
        (UNDER_ANOTHER_NAME, RENAMED, {f"{GPU}.shared": 32}, ""),
        (PLAIN, FOUR, {"gpu.nvidia.com": 3}, ""),
    ],
)
def test_a_change_interrupts_pods_by_mps_or_by_too_few_shares(
    found: dict, wanted: config.Configuration, held: dict, said: str
) -> None:
    why = node.interruption(found, wanted, held)
    assert said in why and bool(said) == bool(why)


def test_a_resource_that_is_not_offered_at_all_counts_as_none() -> None:
    found = seen({GPU: 32}, replicas=4, sharing_strategy="time-slicing", product="H100-SHARED")
    del found["status"]["allocatable"][GPU]
    assert "offers 0 of nvidia.com/gpu instead of 32" in node.missing(found, FOUR)


@pytest.mark.parametrize(
    ("capacity", "allocatable", "labels", "devices"),
    [
        ({GPU: "8"}, {GPU: "7"}, {}, {GPU: 8}),
        ({GPU: "32"}, {GPU: "28"}, {f"{GPU}.replicas": "4"}, {GPU: 8}),
        ({GPU: "4", f"{GPU}.shared": "16"}, {GPU: "0", f"{GPU}.shared": "16"}, {f"{GPU}.replicas": "4"}, {GPU: 4}),
        ({GPU: "8"}, {GPU: "0"}, {}, {}),
        ({GPU: "1000"}, {GPU: "1000"}, {}, {}),
    ],
)
def test_devices_are_counted_with_the_unhealthy_ones_and_without_what_is_no_longer_offered(
    capacity: dict, allocatable: dict, labels: dict, devices: dict
) -> None:
    found = h100s()
    found["metadata"]["labels"] |= labels
    found["status"] |= {"capacity": capacity, "allocatable": allocatable}
    assert node.devices(found) == devices
