# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lines of the operator make of the same cluster."""

from __future__ import annotations

import pytest

from lab.cluster.operator.standin import drivers, images, lines
from lab.cluster.operator.standin.nodes import PRESENT
from lab.cluster.operator.standin.readiness import daemonset_ready
from tests.lab.cluster.operator.standin.builders import driver, gpu_node

LINES = [lines.V25_10, lines.V26_3, lines.V26_7]


def system(name: str, version: str) -> dict[str, str]:
    return {
        images.OS_ID: name,
        images.OS_VERSION: version,
        f"{images.OS_VERSION}.major": version.split(".", maxsplit=1)[0],
    }


@pytest.mark.parametrize(
    ("name", "version", "tags"),
    [
        ("ubuntu", "24.04", ["ubuntu24.04"] * 3),
        ("rhel", "9.4", ["rhel9.4", "rhel9.4", "rhel9"]),
        ("rhel", "10.0", ["rhel10.0", "rhel10", "rhel10"]),
        ("rocky", "9.5", ["rocky9.5", "rocky9", "rocky9"]),
        ("ol", "9.5", ["ol9.5", "ol9.5", "ol9"]),
    ],
)
def test_the_end_of_a_drivers_tag(name: str, version: str, tags: list[str]) -> None:
    assert [images.os_tag(system(name, version), line) for line in LINES] == tags


def test_a_pool_before_v26_7_has_no_owner_and_the_full_version() -> None:
    rhel = gpu_node("a", **system("rhel", "10.0"))
    found = drivers.pools(driver("mine", {}), [rhel], lines.V26_3)
    assert [pool.os_tag for pool in found] == ["rhel10"]
    assert found[0].selector == {PRESENT: "true", images.OS_ID: "rhel", images.OS_VERSION: "10.0"}
    assert drivers.pools(driver("mine", {}), [rhel]) == []


def test_overlapping_selectors_before_v26_7_name_the_driver_that_is_looked_at() -> None:
    some = [driver("a", {"pool": "x"}), driver("b")]
    nodes = [gpu_node("one", pool="x"), gpu_node("two")]
    for item in some:
        problem = drivers.clash(item, some, nodes)
        assert problem is not None
        assert problem[0] == "ConflictingNodeSelector"
    assert problem is not None
    words = f'for resource: b, nodeSelector: map["{PRESENT}":"true"]'
    assert problem[1] == f"conflicting NVIDIADriver NodeSelectors found {words}"
    assert drivers.clash(some[0], some[:1], nodes) is None


def test_before_v26_7_a_daemonset_is_ready_with_pods_that_are_not_updated() -> None:
    outdated = {
        "metadata": {"generation": 2},
        "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        "status": {"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 1},
    }
    assert not daemonset_ready(outdated, [], lambda: None)
    assert daemonset_ready(outdated, [], lambda: None, counts_updates=False)
